// The passes of a step as functions of the module (optim/device_step.h).
#include "optim/step.cuh"

#include "optim/device_step.h"

namespace mixtape::optim::device {
namespace {

static_assert(sizeof(CensusPart) == part_bytes);

void survey_all(const StepTable& table, void* parts, void* found) {
  survey(table, static_cast<CensusPart*>(parts), static_cast<CensusPart*>(found), nullptr);
}

void judge_all(const StepTable& table, const void* found, const JudgeRequest& request) {
  uint8_t* flags = reinterpret_cast<uint8_t*>(request.record + 1);
  judge(table, static_cast<const CensusPart*>(found), flags,
        {request.record, request.round, request.lr, request.counts, request.mode}, nullptr);
}

void clip(const StepRecord* record, double max_norm, const double* factor, double* out) {
  launch(clip_kernel<>, 1, 1, 0, nullptr, record, max_norm, factor, out);
}

void note_counts(StepRecord* record, const UpdateCounts* counts) {
  launch(note_counts_kernel<>, 1, 1, 0, nullptr, record, counts);
}

void advance(const StepRecord* record, const SchedulePlan& plan, int64_t* updates, double* lr) {
  launch(advance_kernel<>, 1, 1, 0, nullptr, record, plan, updates, lr);
}

const mixtape::detail::ProvideFunction provided[] = {{"optim.survey", &survey_all},
                                                     {"optim.judge", &judge_all},
                                                     {"optim.clip", &clip},
                                                     {"optim.note_counts", &note_counts},
                                                     {"optim.advance", &advance}};

}  // namespace
}  // namespace mixtape::optim::device
