#include "optim/device_step.h"

#include <algorithm>
#include <cstring>

#include "core/device_module.h"
#include "core/factory.h"

namespace mixtape::optim {
namespace {

Tensor bytes_there(size_t bytes, Device device) { return zeros({static_cast<int64_t>(bytes)}, DType::u8, device); }

template <class T>
T read_from(const Tensor& tensor) {
  T value;
  const Tensor here = to(tensor, {});
  std::memcpy(&value, here.view().data, sizeof value);
  return value;
}

}  // namespace

ReadRecord read(const RecordHandle& handle) {
  ReadRecord out;
  const Tensor here = to(handle.bytes, {});
  const char* bytes = static_cast<const char*>(here.view().data);
  std::memcpy(&out.record, bytes, sizeof out.record);
  for (size_t i = 0; i < handle.names->size(); ++i) {
    if (bytes[sizeof(StepRecord) + i] != 0) out.nonfinite.push_back((*handle.names)[i]);
  }
  return out;
}

DeviceStep::DeviceStep(Device device, int64_t parameters)
    : device_(device),
      lr_(zeros({1}, DType::f64, device)),
      steps_(zeros({std::max<int64_t>(parameters, 1)}, DType::i64, device)),
      counts_(bytes_there(sizeof(UpdateCounts), device)) {}

std::vector<int64_t> DeviceStep::read_steps() const {
  const Tensor here = to(steps_, {});
  const int64_t* first = here.data<int64_t>();
  return {first, first + here.numel()};
}

void DeviceStep::write_steps(const std::vector<int64_t>& steps) {
  if (!steps.empty()) assign(steps_, from_ints(steps, {std::ssize(steps)}));
}

UpdateCounts DeviceStep::read_counts() const { return read_from<UpdateCounts>(counts_); }

void DeviceStep::set_table(std::vector<TableRow> rows, std::vector<std::string> names,
                           const std::vector<Tensor>& raws) {
  table_.count = static_cast<int>(rows.size());
  table_.blocks = 0;
  for (TableRow& row : rows) {
    row.first_block = table_.blocks;
    table_.blocks += (row.count + block_elements - 1) / block_elements;
  }
  if (!names_ || *names_ != names) names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
  const bool same =
      std::equal(seen_.begin(), seen_.end(), raws.begin(), raws.end(),
                 [](const Seen& a, const Tensor& b) { return a.raw.same_as(b) && a.version == b.storage().version(); });
  if (!same) {
    seen_.clear();
    for (const Tensor& raw : raws) seen_.push_back({raw, raw.storage().version()});
  }
  if (rows != rows_there_) {
    const size_t bytes = rows.size() * sizeof(TableRow);
    if (!rows_ || rows_.storage().bytes() < bytes) rows_ = bytes_there(std::max<size_t>(bytes, 1), device_);
    device_backend(device_).copy_bytes(rows_.view().data, device_, rows.data(), {}, bytes);
    rows_there_ = std::move(rows);
  }
  table_.rows = static_cast<const TableRow*>(rows_ ? rows_.view().data : nullptr);
  if (!same) survey();
}

void DeviceStep::survey() {
  const auto room = [&](Tensor& tensor, int64_t count) {
    const size_t bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * part_bytes;
    if (!tensor || tensor.storage().bytes() < bytes) tensor = bytes_there(bytes, device_);
    return tensor.view().data;
  };
  void* parts = room(parts_, table_.blocks);
  void* found = room(found_, table_.count);
  device_function<SurveyFunction>(device_, "optim.survey")(table_, parts, found);
}

RecordHandle DeviceStep::judge(const Tensor& round, Judging mode) {
  const RecordHandle record{bytes_there(sizeof(StepRecord) + names_->size(), device_), names_};
  const JudgeRequest request{record.data(), static_cast<RoundFlags*>(round ? round.view().data : nullptr), lr(),
                             counts(), mode};
  device_function<JudgeFunction>(device_, "optim.judge")(table_, found_ ? found_.view().data : nullptr, request);
  return record;
}

void DeviceStep::forget() { seen_.clear(); }

}  // namespace mixtape::optim
