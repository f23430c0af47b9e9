// The step of an optimizer whose parameters lie on a device: which memory it needs there, and the calls of the passes
// (optim/step.cuh). Nothing waits for the host but where a function says so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "optim/gradients.h"
#include "optim/schedule_formula.h"
#include "optim/step_state.h"

namespace mixtape::optim {

struct JudgeRequest {
  StepRecord* record;
  RoundFlags* round;
  const double* lr;
  UpdateCounts* counts;
  Judging mode;
};
inline constexpr size_t part_bytes = 16;  ///< what a survey keeps of a block, and of a gradient

// What a module provides: "optim.survey", "optim.judge", "optim.clip", "optim.note_counts", "optim.advance".
using SurveyFunction = void(const StepTable& table, void* parts, void* found);
using JudgeFunction = void(const StepTable& table, const void* found, const JudgeRequest& request);
using ClipFunction = void(const StepRecord* record, double max_norm, const double* factor, double* out);
using NoteCountsFunction = void(StepRecord* record, const UpdateCounts* counts);
using AdvanceFunction = void(const StepRecord* record, const SchedulePlan& plan, int64_t* updates, double* lr);

/// A record in device memory, with the names that its flags are of.
struct RecordHandle {
  Tensor bytes;  ///< u8: a StepRecord and a flag for each name
  std::shared_ptr<const std::vector<std::string>> names;
  StepRecord* data() const { return static_cast<StepRecord*>(bytes.view().data); }
};
/// A record on the host.
struct ReadRecord {
  StepRecord record;
  std::vector<std::string> nonfinite;  ///< of a skip for an overflow, or a look
};
ReadRecord read(const RecordHandle& record);  ///< waits

class DeviceStep {
 public:
  DeviceStep(Device device, int64_t parameters);

  Device device() const { return device_; }
  double* lr() const { return static_cast<double*>(lr_.view().data); }
  const Tensor& lr_tensor() const { return lr_; }
  /// The count of parameter number i.
  int64_t* steps(int64_t i) const { return static_cast<int64_t*>(steps_.view().data) + i; }
  std::vector<int64_t> read_steps() const;  ///< waits
  void write_steps(const std::vector<int64_t>& steps);
  UpdateCounts* counts() const { return static_cast<UpdateCounts*>(static_cast<void*>(counts_.view().data)); }
  UpdateCounts read_counts() const;  ///< waits

  /// The parameters that have a gradient now, with their names and these gradients. Where nothing but multipliers
  /// changed since the last call, what a survey found stays valid.
  void set_table(std::vector<TableRow> rows, std::vector<std::string> names, const std::vector<Tensor>& raws);
  const StepTable& table() const { return table_; }
  /// A record of the gradients in the table; `round` are RoundFlags in device memory, or absent.
  RecordHandle judge(const Tensor& round, Judging mode);
  void forget();  ///< lets go of the gradients' bytes

 private:
  void survey();

  struct Seen {
    Tensor raw;
    uint32_t version;
  };
  Device device_;
  Tensor lr_, steps_, counts_;
  Tensor rows_, parts_, found_;
  std::vector<TableRow> rows_there_;  // what rows_ holds
  std::vector<Seen> seen_;            // what found_ is of
  std::shared_ptr<const std::vector<std::string>> names_;
  StepTable table_;
};

}  // namespace mixtape::optim
