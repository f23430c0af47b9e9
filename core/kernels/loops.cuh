// map, fold and rows on a GPU: the same formulas, in f32. Included by loops.h under nvcc, after it by what runs on the
// device-on-CPU runner. The same contract as on the CPU; every launch goes to the stream that is given.
#pragma once

#include "core/kernels/loops.h"

#include "core/kernels/fold.cuh"
#include "core/kernels/map.cuh"
#include "core/kernels/rows.cuh"
