// The pictures of the lessons in tools/teach.
#pragma once

#include <optional>
#include <vector>

#include "tools/svg.h"
#include "tools/teach/accumulate.h"
#include "tools/teach/break.h"
#include "tools/teach/format.h"
#include "tools/teach/swallow.h"

namespace mixtape::tools {

/// The range of each format over powers of two; with a loss scale, also that of the gradients it keeps.
SvgChart teach_picture(const std::vector<teach::Format>& formats, std::optional<double> scale);
/// The weight against the steps.
SvgChart teach_picture(const teach::Swallow& lesson);
/// The sums against the number of terms.
SvgChart teach_picture(const teach::Accumulate& lesson);
/// The losses of both trainings against the steps.
SvgChart teach_picture(const teach::BreakLesson& lesson);

}  // namespace mixtape::tools
