// mixtape inspect weights FILE|DIR: which tensors a checkpoint holds.
#include <cmath>
#include <filesystem>
#include <memory>

#include "core/tensor.h"
#include "data/weight_file.h"
#include "tools/commands.h"
#include "tools/trainer/json.h"
#include "tools/trainer/progress.h"

namespace mixtape::tools {
namespace {

struct InspectWeightsOptions {
  std::string path;
  bool json = false;
};

struct Summary {
  double sum = 0;
  std::vector<double> first;  // at most eight, row-major
};

template <class T>
Summary summarize_as(const Tensor& tensor) {
  constexpr int64_t shown = 8;
  Summary out;
  const T* const values = tensor.data<T>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    double value = 0;
    if constexpr (is_low(dtype_of<T>))
      value = to_float(values[i]);
    else
      value = static_cast<double>(values[i]);
    out.sum += value;
    if (i < shown) out.first.push_back(value);
  }
  return out;
}

/// Of a contiguous tensor.
Summary summarize(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32: return summarize_as<float>(tensor);
    case DType::f16: return summarize_as<half>(tensor);
    case DType::bf16: return summarize_as<bf16>(tensor);
    case DType::f64: return summarize_as<double>(tensor);
    case DType::i64: return summarize_as<int64_t>(tensor);
    case DType::i32: return summarize_as<int32_t>(tensor);
    case DType::u8: return summarize_as<uint8_t>(tensor);
    case DType::boolean: return summarize_as<bool>(tensor);
  }
  return {};
}

trainer::Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

trainer::Json as_json(const data::Weight& weight, const Summary& summary) {
  trainer::Json shape = trainer::Json::array(), first = trainer::Json::array();
  for (const int64_t size : weight.shape) shape.push(size);
  for (const double value : summary.first) first.push(number(value));
  return trainer::Json::object()
      .set("name", weight.name)
      .set("dtype", name_of(weight.dtype))
      .set("shape", std::move(shape))
      .set("sum", std::isfinite(summary.sum) ? trainer::Json(summary.sum) : trainer::Json())
      .set("first", std::move(first));
}

/// The weights of a run are those of its best model.
std::string resolve(const std::string& path) {
  const auto has_weights = [](const std::string& dir) {
    std::error_code ignored;
    return std::filesystem::exists(dir + "/model.safetensors", ignored);
  };
  return !has_weights(path) && has_weights(path + "/best") ? path + "/best" : path;
}

void weights(const InspectWeightsOptions& options) {
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  const data::WeightFile file = data::WeightFile::open(resolve(options.path));
  for (const std::string& other : file.passed_over()) note("not read: " + other);
  trainer::Activity activity(progress, "reading " + file.path(), std::ssize(file.tensors()));
  trainer::Json tensors = trainer::Json::array();
  std::string lines = file.path() + "\n";
  int64_t done = 0;
  for (const data::Weight& weight : file.tensors()) {
    const Summary summary = summarize(file.read(weight));
    if (options.json)
      tensors.push(as_json(weight, summary));
    else
      lines += message("  ", weight.name, "  ", name_of(weight.dtype), " ", weight.shape.str(), "  sum ",
                       message(summary.sum), "\n");
    activity.done(++done);
  }
  progress.clear();
  print(options.json ? trainer::Json::object().set("tensors", std::move(tensors)).line() + "\n" : lines);
}

}  // namespace

void add_inspect_weights(Verb& inspect) {
  Verb verb = inspect.add("weights", "which tensors a checkpoint of any supported format holds");
  const auto options = std::make_shared<InspectWeightsOptions>();
  verb.option("PATH", options->path,
              {.doc = "a .safetensors or PyTorch file, the .index.json of one in shards, or a directory with one",
               .required = true});
  verb.flag("--json", options->json, "as JSON: {\"tensors\"}, with the first values of each");
  verb.action([options] { weights(*options); });
}

}  // namespace mixtape::tools
