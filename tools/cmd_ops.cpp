// mixtape ops: the registry as a table for people, for ops/TABLE.md (--markdown) and for programs (--json).
#include <memory>

#include "core/error.h"
#include "core/op.h"
#include "tools/commands.h"
#include "tools/config/fields.h"
#include "tools/config/json_locate.h"

namespace mixtape::tools {
namespace {

using Words = std::vector<std::string>;

Words input_names(const OpInfo& info) {
  Words out;
  for (int i = 0; i < info.inputs.count; ++i) out.emplace_back(info.inputs[i].name);
  if (info.variadic && !out.empty()) out.back() += "...";
  return out;
}

/// What a node keeps for its backward; nothing for an op that has none.
Words saved_names(const OpSchema& op) {
  Words out;
  if (op.backward == nullptr) return out;
  for (int i = 0; i < op.info->inputs.count; ++i) {
    if (op.info->saves.inputs >> i & 1) out.emplace_back(op.info->inputs[i].name);
  }
  for (int i = 0; i < 8; ++i) {
    if (op.info->saves.outputs >> i & 1) out.push_back(i == 0 ? "output" : message("output ", i + 1));
  }
  return out;
}

Words dtype_names(const OpInfo& info) {
  Words out;
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (is_float(dtype) || info.any_dtype) out.emplace_back(name_of(dtype));
  }
  return out;
}

Words devices_of(const OpSchema& op) {
  Words out{"cpu"};
  if (op.in_device_module || op.info->any_device) out.emplace_back("cuda");
  return out;
}

/// The sentence for a cell of a Markdown table, where | would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string differentiable(const OpSchema& op) {
  if (op.backward == nullptr) return "no";
  return op.info->twice ? "twice" : "once";
}

std::string text_table() {
  size_t width = 0;
  for (const OpSchema* op : registry()) width = std::max(width, op->info->name.size());
  std::string out;
  for (const OpSchema* op : registry()) {
    const std::string name(op->info->name), rule(name_of(op->info->precision.rule));
    out += name + std::string(width - name.size() + 2, ' ') + rule +
           std::string(rule.size() < 8 ? 8 - rule.size() : 1, ' ') + std::string(op->info->doc) + "\n";
  }
  return out;
}

std::string markdown_table() {
  std::string out =
      "# The ops\n\n"
      "Made from the registry by `mixtape ops --markdown`; a test fails when it is stale. The precision rules are "
      "explained in\n"
      "`amp/README.md`, how to add a row in `ops/README.md`.\n\n"
      "| op | precision | inputs | saves for backward | dtypes | devices | derivative | what it does |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const OpSchema* op : registry()) {
    const OpInfo& info = *op->info;
    out += message(
        "| `", info.name, "` | ", name_of(info.precision.rule), " | ", config::joined(input_names(info), ", ", "none"),
        " | ", config::joined(saved_names(*op), ", ", "nothing"), " | ", config::joined(dtype_names(info), " ", ""),
        " | ", config::joined(devices_of(*op), " ", ""), " | ", differentiable(*op), " | ", cell(info.doc), " |\n");
  }
  return out;
}

std::string json_list(Words words) {
  for (std::string& word : words) word = config::quote_json(word);
  return "[" + config::joined(words, ",", "") + "]";
}

std::string json_inputs(const OpInfo& info) {
  Words out;
  for (int i = 0; i < info.inputs.count; ++i) {
    const Input& input = info.inputs[i];
    out.push_back(message("{\"name\":", config::quote_json(input.name), ",\"role\":\"", name_of(input.role),
                          "\",\"optional\":", input.optional, "}"));
  }
  return "[" + config::joined(out, ",", "") + "]";
}

std::string json_table() {
  std::string out;
  for (const OpSchema* op : registry()) {
    const OpInfo& info = *op->info;
    out +=
        message(out.empty() ? "" : ",", "\n{\"name\":", config::quote_json(info.name), ",\"precision\":\"",
                name_of(info.precision.rule), "\",\"inputs\":", json_inputs(info), ",\"variadic\":", info.variadic,
                ",\"saves\":", json_list(saved_names(*op)), ",\"dtypes\":", json_list(dtype_names(info)),
                ",\"devices\":", json_list(devices_of(*op)), ",\"differentiable\":", op->backward != nullptr,
                ",\"twice\":", op->backward != nullptr && info.twice, ",\"doc\":", config::quote_json(info.doc), "}");
  }
  return "[" + out + "\n]\n";
}

}  // namespace

void add_ops(Program& program) {
  Verb verb = program.root.add("ops", "the registry of ops: precision rule, inputs, what each saves");
  struct Options {
    bool markdown = false, json = false;
  };
  const auto options = std::make_shared<Options>();
  verb.flag("--markdown", options->markdown, "the page ops/TABLE.md");
  verb.flag("--json", options->json, "as JSON", {"--markdown"});
  verb.action([options] { print(options->markdown ? markdown_table() : options->json ? json_table() : text_table()); });
}

}  // namespace mixtape::tools
