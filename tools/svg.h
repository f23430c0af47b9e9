// Pictures, by the names that the verbs use: tools/draw draws them.
#pragma once

#include "tools/draw/svg.h"

namespace mixtape::tools {

using draw::AxisKind;
using draw::SvgChart;
using SvgAxis = draw::Axis;

}  // namespace mixtape::tools
