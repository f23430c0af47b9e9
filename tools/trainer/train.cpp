#include "tools/trainer/train.h"

#include "core/error.h"
#include "core/kernels/parallel.h"
#include "tools/config/build_info.h"
#include "tools/trainer/hash.h"

namespace mixtape::trainer {
namespace {

Json build_json() {
  const config::BuildInfo build = config::build_info();
  return Json::object()
      .set("version", build.version)
      .set("compiler", build.compiler)
      .set("architecture", build.architecture)
      .set("instructions", build.instructions)
      .set("gemm", build.gemm);
}

Json machine_json() {
  const config::MachineInfo machine = config::machine_info();
  return Json::object()
      .set("processor", machine.cpu)
      .set("system", machine.system)
      .set("cores", machine.cores)
      .set("threads", kernels::thread_count())
      .set("memory_bytes", machine.memory)
      .set("instructions", machine.instructions);
}

Json data_hashes(const config::TaskConfig& task) {
  Json out = Json::object();
  for (const std::string& file : data::data_files(data_format(task), task.data_dir)) {
    out.set(file, hash_of_file(message(task.data_dir, "/", file)));
  }
  return out;
}

/// run.json: what a person needs to tell whether two runs are the same.
Json run_json(const config::Config& config, const models::BertClassifier& model) {
  return Json::object()
      .set("mixtape", build_json())
      .set("machine", machine_json())
      .set("parameters", model.parameter_count())
      .set("xxh3_128", Json::object()
                           .set("data", data_hashes(config.task))
                           .set("vocabulary", hash_of_file(config.tokenizer.vocab))
                           .set("start_weights", hash_of_tensors(model.parameters())));
}

}  // namespace

TrainResult train(config::Config config, const std::string& dir, bool force, Progress& progress) {
  RunDir::check(dir, force);
  kernels::set_thread_count(static_cast<int>(config.threads));
  take_from_pretrained(config);
  const data::Tokenizer tokenizer = make_tokenizer(config.tokenizer);
  Task task = read_task(config, tokenizer, progress);
  const auto model = make_model(config, tokenizer.vocab().size(), task.class_names, progress);
  Trainer trainer({.config = config, .tokenizer = tokenizer, .model = *model, .progress = progress}, std::move(task));
  const Json about = run_json(config, *model);

  const RunDir run_dir = RunDir::create(dir, force);
  if (!run_dir.moved_to().empty()) progress.note("what was in " + dir + " is now in " + run_dir.moved_to());
  run_dir.write("config.json", config::to_json(config));
  run_dir.write("run.json", about.pretty());
  return trainer.run(run_dir);
}

}  // namespace mixtape::trainer
