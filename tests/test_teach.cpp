// The lessons from outside: their whole text, their JSON, their pictures, their errors.
#include <doctest/doctest.h>

#include <cctype>

#include "tests/svg_texts.h"
#include "tests/tiny_run.h"
#include "tools/draw/svg.h"

namespace mixtape::tests {
namespace {
using nlohmann::json;

/// A lesson and the file in tests/golden/teach that holds what it prints. When that changes on purpose:
///   build/release/bin/mixtape teach bits 0.1 >tests/golden/teach/bits.txt
struct Golden {
  const char* file;
  const char* command;
};
constexpr Golden goldens[] = {
    {"bits.txt", "bits 0.1"},
    {"bits_neighbours.txt", "bits 2^-24 --neighbours"},
    {"bits_inf.txt", "bits -inf"},
    {"bits_pattern.txt", "bits 0x3DCD --of bf16"},
    {"formats.txt", "formats"},
    {"formats_scale.txt", "formats --formats fp16 --scale 65536"},
    {"swallow.txt", "swallow --dtype fp16 --weight 1.0 --update 2e-5 --steps 100"},
    {"swallow_bf16.txt", "swallow --dtype bf16 --update -6e-4"},
    {"accumulate.txt", "accumulate --dtype fp16 --n 4096"},
    {"accumulate_bf16.txt", "accumulate --dtype bf16"},
    {"accumulate_random.txt", "accumulate --dtype fp16 --n 70000 --random --seed 7"},
    {"softmax.txt", "softmax"},
    {"softmax_bf16.txt", "softmax --dtype bf16"},
    {"layernorm.txt", "layernorm"},
    {"layernorm_bf16.txt", "layernorm --dtype bf16"},
    {"quiz.txt", "quiz --seed 1"},
    {"quiz_solutions.txt", "quiz --seed 1 --solutions"},
};

/// What a lesson refuses, and a word of the reason.
struct Refused {
  const char *command, *code, *word;
};
constexpr Refused refused[] = {
    {"bits", "E-USAGE", "VALUE"},
    {"bits abc", "E-TEACH-VALUE", "expected a number"},
    {"bits 1..2", "E-TEACH-VALUE", "at character 3"},
    {"bits '2 *'", "E-TEACH-VALUE", "expected a number at character 4"},
    {"bits '(1'", "E-TEACH-VALUE", "expected )"},
    {"bits ''", "E-TEACH-VALUE", "expected a number"},
    {"bits 1e999", "E-TEACH-VALUE", "f64"},
    {"bits 1,5", "E-TEACH-VALUE", "operator"},
    {"bits 0x3DCD", "E-TEACH-VALUE", "--of"},
    {"bits 0x3DCD1 --formats bf16", "E-TEACH-VALUE", "at most 4 hexadecimal digits"},
    {"bits 0xZZ --formats bf16", "E-TEACH-VALUE", "hexadecimal"},
    {"bits 0x --formats bf16", "E-TEACH-VALUE", "hexadecimal"},
    {"bits 1 --formats fp17", "E-TEACH-FORMAT", "did you mean \"fp16\"?"},
    {"bits 1 --formats fp16,fp16", "E-TEACH-FORMAT", "twice"},
    {"bits 1 --formats ''", "E-TEACH-FORMAT", "expected fp32, fp16 or bf16"},
    {"formats --scale 0", "E-SCALE-OPTIONS", "2^-126"},
    {"formats --scale nan", "E-TEACH-VALUE", "must be finite"},
    {"swallow --dtype int8", "E-TEACH-FORMAT", "expected fp32, fp16 or bf16"},
    {"swallow --steps 0", "E-USAGE", "--steps"},
    {"swallow --weight inf", "E-TEACH-VALUE", "--weight must be finite"},
    {"accumulate --n 0", "E-USAGE", "--n"},
    {"accumulate --value x", "E-TEACH-VALUE", "expected a number"},
    {"softmax --dtype fp32", "E-TEACH-FORMAT", "16-bit"},
    {"softmax --scores 1,,2", "E-TEACH-VALUE", "expected a number"},
    {"swallow --weight 1e300", "E-TEACH-VALUE", "--weight is inf in fp16, which ends at 65504"},
    {"swallow --update 1e39", "E-TEACH-VALUE", "--update is inf in fp32"},
    {"accumulate --random --value 40000", "E-TEACH-VALUE", "twice --value is inf in fp16"},
    {"softmax --scores 1,70000", "E-TEACH-VALUE", "--scores is inf in fp16"},
    {"softmax --scores 1,301", "E-TEACH-VALUE", "within -300 and 300"},
    {"softmax --spread 10000", "E-TEACH-VALUE", "ten times --spread"},
    {"layernorm --eps 0", "E-TEACH-VALUE", "must be > 0"},
    {"layernorm --n 1", "E-USAGE", "--n"},
    {"quiz --answer 1", "E-TEACH-ANSWERS", "1 answers to 8 questions"},
    {"quiz --answer 1 --answers -", "E-TEACH-ANSWERS", "one of the two ways"},
    {"bit 1", "E-USAGE", "did you mean \"bits\"?"},
};

json lesson(const std::string& command) {
  const ProgramResult result = run_program("teach " + command + " --json");
  CAPTURE(command);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

/// What is wrong with an XML text: tags that do not close, attributes without quotes, a bare & or <. "" for nothing.
std::string xml_fault(const std::string& text) {
  std::vector<std::string> open;
  bool any = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '&') {
      const std::string name = text.substr(i + 1, text.find(';', i) - i - 1);
      if (name != "amp" && name != "lt" && name != "gt" && name != "quot") return "entity " + name;
    }
    if (text[i] == '>') return "a > outside of a tag: " + text.substr(i, 30);
    if (text[i] != '<') continue;
    const size_t end = text.find('>', i);
    if (end == std::string::npos) return "a tag without end";
    const std::string tag = text.substr(i + 1, end - i - 1);
    if (tag.find('<') != std::string::npos) return "a < in a tag: " + tag;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "an open quote: " + tag;
    const std::string name = tag.substr(0, tag.find_first_of(" /", tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != name) return "closes what is not open: " + name;
      open.pop_back();
    } else if (tag.back() != '/') {
      if (any && open.empty()) return "a second root";
      open.push_back(name);
      any = true;
    }
    i = end;
  }
  return open.empty() && any ? "" : "never closed";
}

}  // namespace

TEST_CASE("teach: what a lesson prints is what its golden file holds") {
  for (const Golden& golden : goldens) {
    const std::string command = std::string("teach ") + golden.command;
    CAPTURE(command);
    const ProgramResult result = run_program(command);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK(result.out == slurp(std::string(MIXTAPE_SOURCE_DIR "/tests/golden/teach/") + golden.file));
  }
}

TEST_CASE("teach: bits 0.1 as the contract writes it") {
  const char* const wanted =
      "fp32 0 01111011 10011001100110011001101  0x3DCCCCCD  0.100000001490   ulp 7.45e-09  err +1.5e-08 rel\n"
      "fp16 0 01011    1001100110               0x2E66      0.0999755859375  ulp 6.10e-05  err -2.4e-04 rel\n"
      "bf16 0 01111011 1001101                  0x3DCD      0.10009765625    ulp 4.88e-04  err +9.8e-04 rel\n";
  CHECK(run_program("teach bits 0.1").out == wanted);
  CHECK(run_program("teach bits 0.1 --formats fp32,fp16,bf16").out == wanted);
  CHECK(run_program("teach bits 0.1 --formats f32,f16,bf16").out == wanted);
}

TEST_CASE("teach: every lesson has one JSON document, the same each time, in every locale") {
  for (const Golden& golden : goldens) {
    const std::string command = std::string("teach ") + golden.command + " --json";
    CAPTURE(command);
    const ProgramResult result = run_program(command);
    CHECK(json::parse(result.out).is_object());
    CHECK(result.err.empty());
    CHECK(run_program(command, "", "LC_ALL=de_DE.UTF-8").out == result.out);
    CHECK(run_program(command, "", "OMP_NUM_THREADS=1").out == result.out);
  }
}

TEST_CASE("teach: bits says what kind of number it is, and takes patterns, signs and formulas") {
  const auto row = [](const std::string& arguments) { return lesson("bits " + arguments)["formats"][0]; };
  CHECK(row("2^-24 --formats fp16")["kind"] == "subnormal");
  CHECK(row("2^-25 --formats fp16")["kind"] == "zero");
  CHECK(row("-nan --formats fp16")["kind"] == "nan");
  CHECK(row("-inf --formats fp16")["nonfinite"]["value"] == "-inf");
  CHECK(row("-0.0 --formats fp16")["bits"] == "0x8000");
  CHECK(row("0x7C01 --formats fp16")["bits"] == "0x7C01");  // a signalling NaN, as it was given
  CHECK(row("0x2E66 --formats fp16")["value"] == 0.0999755859375);
  CHECK(lesson("bits 0x2E66 --of fp16")["formats"][2]["bits"] == "0x3DCD");
  CHECK(row("' 2 * (1 + 2^-3)^2 - -1'")["value"] == 3.53125);
  CHECK(row("-2^2")["value"] == -4);
  CHECK(row("'exp(log(2)) * sqrt(4) + tanh(0)'")["value"] == 4);
  CHECK(row("65504 --formats fp16")["nonfinite"]["above"] == "inf");
}

TEST_CASE("teach: a decimal of many digits is rounded once") {
  // One f64 holds the tie between 1 and the next fp32; what is beyond its last digit decides.
  const std::string tie = "1.000000059604644775390625";
  CHECK(lesson("bits " + tie)["formats"][0]["value"] == 1);
  CHECK(lesson("bits " + tie + "00000000000000000001")["formats"][0]["value"] == 1 + 0x1p-23);
  const std::string next_tie = "1.000000178813934326171875";
  CHECK(lesson("bits " + next_tie)["formats"][0]["value"] == 1 + 0x1p-22);
  CHECK(lesson("bits 1.0000001788139343261718749999999999999999")["formats"][0]["value"] == 1 + 0x1p-23);
}

TEST_CASE("teach: softmax and layernorm find the first wrong step, and the ops have none") {
  const auto firsts = [](const std::string& command) {
    std::vector<std::string> out;
    const json found = lesson(command);
    for (const json& chain : found["lessons"]) {
      out.push_back(chain["first_wrong"].is_null() ? "" : chain["first_wrong"].get<std::string>());
      CHECK(chain["op"]["error"].get<double>() < 0.005);
      for (const json& step : chain["steps"]) CHECK(step["f32_error"].get<double>() < 1e-4);
    }
    return out;
  };
  using Names = std::vector<std::string>;
  CHECK(firsts("softmax") == Names{"exp(x)", "sum", "exp(x - max)"});
  CHECK(firsts("softmax --dtype bf16") == Names{"", "sum", ""});
  CHECK(firsts("softmax --n 100") == Names{"exp(x)", "", "exp(x - max)"});
  CHECK(firsts("layernorm") == Names{"(x - mean)^2", "mean", "variance + eps"});
  CHECK(firsts("layernorm --n 64 --outlier 200 --mean 0.5 --eps 1e-5") == Names{"", "", ""});
  CHECK(lesson("softmax")["lessons"][0]["op"]["rule"] == "keep");
  CHECK(lesson("softmax")["lessons"][2]["op"]["rule"] == "full");
}

TEST_CASE("teach: another seed draws other numbers") {
  for (const std::string command : {"softmax", "layernorm", "accumulate --random", "quiz"}) {
    CAPTURE(command);
    json first = lesson(command), again = lesson(command + " --seed 42"), other = lesson(command + " --seed 43");
    CHECK(first == again);
    other["seed"] = first["seed"];
    CHECK(first != other);
  }
}

TEST_CASE("teach: pictures are well-formed XML, without a number that is none") {
  const TempFolder folder;
  const std::string path = folder.path("a.svg");
  for (const std::string command :
       {"formats", "formats --scale 65536 --formats fp16", "swallow", "swallow --weight 60000 --update 1000 --steps 9",
        "swallow --update 0", "accumulate", "accumulate --n 1", "accumulate --n 70000 --value 100 --random",
        "break --softmax-fp16"}) {
    CAPTURE(command);
    const ProgramResult result = run_program("teach " + command + " --svg '" + path + "'");
    REQUIRE(result.exit_code == 0);
    CHECK(result.out == run_program("teach " + command).out);
    CHECK(result.err == "wrote " + path + "\n");
    const std::string svg = slurp(path);
    CHECK(xml_fault(svg) == "");
    CHECK(contains(svg, "prefers-color-scheme:dark"));
    CHECK_FALSE(contains(svg, "nan"));
    CHECK_FALSE(contains(svg, "inf,"));
    CHECK(svg_label_fault(svg) == "");
    CHECK((contains(svg, "<polyline") || contains(svg, "class=\"b0\"")));
  }
  CHECK(xml_fault("<a><b></a></b>") != "");
  CHECK(xml_fault("<a x=\"1>2</a>") != "");
  CHECK(xml_fault("<a>1 & 2</a>") != "");
  CHECK(run_program("teach swallow --svg /nowhere/a.svg").exit_code == 5);
}

TEST_CASE("draw: no label is cut or lies on another, wherever rules stand and however long names are") {
  using draw::Axis;
  using draw::AxisKind;
  const std::string longest =
      "/home/somebody/experiments/2026/november/the-run-with-a-name-that-is-longer-than-a-line-"
      "of-text-has-any-right-to-be/fp16-and-a-high-loss-scale/seed-42/again";
  draw::SvgChart chart("Loss scale of " + longest, Axis{"step", 1, 16777216},
                       Axis::around("loss scale", {0x1p-9, 0x1p24}, AxisKind::log2));
  chart.line("a line of " + longest, {{1, 1}, {16777216, 2}});
  for (const double at : {1.0, 1.0, 2.0, 100000.0, 200000.0, 1e6, 1.1e6, 16777215.0, 16777216.0})
    chart.rule(at, "0.123 % flushed");
  chart.rule(1e9, "outside");
  const std::string svg = chart.text();
  CHECK(svg_label_fault(svg) == "");
  CHECK_FALSE(contains(svg, "outside"));
  CHECK(contains(svg, "…"));
  CHECK(contains(svg, "<title>Loss scale of " + longest + "</title>"));  // there whole
  int rules = 0;
  for (size_t at = 0; (at = svg.find("class=\"rule\"", at)) != std::string::npos; ++at) ++rules;
  CHECK(rules == 8);  // two of them are one
  const draw::SvgChart narrow("t", Axis{"", -3, 3}, Axis::of_names("", {"fp32 divided by the scale", "b"}));
  CHECK(svg_label_fault(narrow.text()) == "");
  CHECK(svg_label_fault("<svg viewBox=\"0 0 90 90\"><text x=\"5\" y=\"20\" text-anchor=\"middle\">scaled</text>") !=
        "");
}

TEST_CASE("draw: ticks are numbers, and none of them is -0") {
  for (const auto& [low, high] : {std::pair{-3.0, 3.0}, {-1e-9, 1e-9}, {-0.4, 1.0}, {-700.0, 100.0}}) {
    for (const draw::Tick& tick : draw::ticks(draw::Axis{"", low, high})) CHECK_FALSE(tick.text.starts_with("-0 "));
    bool zero = false;
    for (const draw::Tick& tick : draw::ticks(draw::Axis{"", low, high})) zero = zero || tick.text == "0";
    CHECK(zero);
  }
  for (const auto& [low, high] : {std::pair{0x1p-3, 8.0}, {0x1p-149, 0x1p127}, {0.9, 1024.0}, {0x1p-20, 1.0}}) {
    bool one = false;
    for (const draw::Tick& tick : draw::ticks(draw::Axis{"", low, high, draw::AxisKind::log2})) {
      CHECK(tick.text != "2^-0");
      one = one || tick.text == "2^0";
    }
    CHECK(one);
  }
}

TEST_CASE("teach: what cannot be read is exit 2 and says what would be") {
  for (const Refused& c : refused) {
    const std::string command = std::string("teach ") + c.command;
    CAPTURE(command);
    const ProgramResult result = run_program(command);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(contains(result.err, std::string("error ") + c.code + "  "));
    CHECK(contains(result.err, c.word));
  }
  CHECK(run_program("teach bits '" + std::string(5000, '(') + "'").exit_code == 2);
  CHECK(run_program("teach bits '" + std::string(900, '(') + "'").exit_code == 2);
  CHECK(run_program("teach quiz --answers /nowhere/a").exit_code == 3);
}

TEST_CASE("teach: quiz grades its own answers as right, from arguments, a file or stdin, and others as wrong") {
  const json solved = lesson("quiz --seed 5 --questions 16 --solutions");
  std::string arguments = "quiz --seed 5 --questions 16", lines;
  for (const json& question : solved["questions"]) {
    const std::string answer =
        question["takes"] == "yes or no" ? (question["answer"].get<bool>() ? "Yes" : "no") : question["answer"].dump();
    arguments += " --answer=" + answer;
    lines += answer + "\n";
  }
  CHECK(lesson(arguments)["right"] == 16);
  const TempFolder folder;
  CHECK(lesson("quiz --seed 5 --questions 16 --answers '" + folder.write("a", lines) + "'")["right"] == 16);
  const ProgramResult piped = run_program("teach quiz --seed 5 --questions 16 --answers -", lines);
  CHECK(contains(piped.out, "\n16 of 16 right\n"));
  std::string wrong;
  for (const json& question : solved["questions"]) {
    if (question["takes"] != "yes or no")
      wrong += message(question["answer"].get<double>() * 1.25, "\n");
    else
      wrong += question["answer"].get<bool>() ? "no\n" : "yes\n";
  }
  CHECK(contains(run_program("teach quiz --seed 5 --questions 16 --answers -", wrong).out, "\n0 of 16 right\n"));
  std::string unreadable;
  for (int i = 0; i < 16; ++i) unreadable += "perhaps\n";
  const ProgramResult lost = run_program("teach quiz --seed 5 --questions 16 --answers -", unreadable);
  CHECK(lost.exit_code == 0);
  CHECK(contains(lost.out, "expected yes or no"));
  CHECK(contains(lost.out, "expected a number"));
  CHECK(contains(lost.out, "\n0 of 16 right\n"));
}

TEST_CASE("teach: quiz keeps its answers to itself, and its questions do not depend on how many follow") {
  const json eight = lesson("quiz --seed 9"), four = lesson("quiz --seed 9 --questions 4");
  CHECK(eight["questions"].size() == 8);
  for (size_t i = 0; i < 4; ++i) CHECK(eight["questions"][i] == four["questions"][i]);
  for (const json& question : eight["questions"]) CHECK_FALSE(question.contains("answer"));
}

}  // namespace mixtape::tests
