// MIXTAPE_HD marks what both machines compile: the CPU and, under nvcc, the GPU.
#pragma once

#if defined(__CUDACC__)
#define MIXTAPE_HD __host__ __device__
#else
#define MIXTAPE_HD
#endif
