// The page of a run: its whole text for a run made by hand, whatever a run directory can look like, and the verb.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/tiny_run.h"
#include "tools/config/build_info.h"
#include "tools/draw/axis.h"
#include "tools/report/chart.h"
#include "tools/report/markup.h"
#include "tools/report/page.h"
#include "tools/report/report.h"

namespace mixtape::tests {
namespace {

const std::string report_page_golden = MIXTAPE_SOURCE_DIR "/tests/golden/report/page.html";

std::string report_step_line(int64_t step, const std::string& loss, double scale, const char* outcome = "applied") {
  return message(R"({"event":"step","step":)", step, R"(,"updates":)", step, R"(,"epoch":1,"loss":)", loss,
                 R"(,"grad_norm":0.5,"lr":0.001,"loss_scale":)", scale, R"(,"outcome":")", outcome,
                 R"(","tokens":64,"seconds":0.5,"tokens_per_s":128,"peak_bytes":1048576})", "\n");
}

std::string report_scores(const std::string& first = "plain") {
  return R"("loss":0.5,"accuracy":0.75,"macro_f1":0.6875,"macro_over":2,"rows":8,"per_class":[{"label":")" + first +
         R"(","precision":0.8,"recall":0.8,"f1":0.8,"support":5,"predicted":5},{"label":"rude","precision":0.6,)"
         R"("recall":0.575,"f1":0.575,"support":3,"predicted":3}],"confusion":[[4,1],[1,2]])";
}

/// A directory that looks like a run's; what `files` does not name is not there.
class ReportedRun {
 public:
  ReportedRun() {
    write("config.json", R"({"task":{"data_dir":"/gone/data"},"tokenizer":{"vocab":"/gone/vocab.txt"},
"amp":{"dtype":"fp16"},"trainer":{"seed":7}})");
    write("run.json", R"({"mixtape":{"version":"0.1.0","gemm":"onednn"},"machine":{"processor":"A <fast> one","cores":2,
"memory_bytes":1073741824,"instructions":["avx2","fma"]},"parameters":1234,"xxh3_128":{"vocabulary":"00ff"},
"origins":{"task.data_dir":"my & own.json:3:5","amp.dtype":"--set","trainer.seed":"my & own.json:4:1"}})");
    log_ =
        R"({"event":"start","steps":6,"steps_per_epoch":6,"epochs":1,"warmup_steps":1})"
        "\n"
        R"({"event":"overflow","step":1,"loss_scale":65536,"outcome":"skipped_overflow","parameters":["bert.a","bert.b","bert.c","bert.d"]})"
        "\n" +
        report_step_line(1, "0.75", 65536, "skipped_overflow") + report_step_line(2, "0.7", 32768) +
        report_step_line(3, "0.65", 32768) + R"({"event":"eval","step":3,"split":"val",)" + report_scores() +
        R"(,"best":true})"
        "\n"
        R"({"event":"interrupted","step":3,"signal":"SIGINT"})"
        "\n"
        R"({"event":"resume","step":3})"
        "\n" +
        report_step_line(4, "0.6", 32768) +
        R"({"event":"overflow","step":5,"loss_scale":32768,"outcome":"skipped_nonfinite_loss","parameters":["loss"]})"
        "\n"
        R"({"event":"nonfinite_loss","step":5,"tensor":"encoder.layer.0"})"
        "\n" +
        report_step_line(5, R"(null,"nonfinite":{"loss":"nan"})", 32768, "skipped_nonfinite_loss") +
        report_step_line(6, "0.55", 16384) + R"({"event":"eval","step":6,"split":"val",)" + report_scores() +
        R"(,"best":false})"
        "\n"
        R"({"event":"eval","step":3,"split":"test",)" +
        report_scores() +
        "}\n"
        R"({"event":"end","steps":6,"updates":4})"
        "\n";
    write("log.jsonl", log_);
    write("metrics.json",
          R"({"val":{)" + report_scores() + R"(},"test":{)" + report_scores() +
              R"(},"best_step":3,"train":{"seconds":3,"tokens":384,"tokens_per_s":128,"peak_bytes":1048576,
"peak_rss_bytes":4194304,"steps":6,"updates":4,"skipped":2,"stopped_early":false}})");
  }

  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  void remove(const std::string& name) const { std::filesystem::remove(folder_.path(name)); }
  const std::string& log() const { return log_; }
  std::string dir() const { return folder_.path(""); }
  report::RunRecord read() const { return report::read_run(dir()); }
  /// What write_report writes from the files alone.
  std::string html() const {
    trainer::Progress progress(trainer::Verbosity::quiet);
    return slurp(report::write_report(dir(), {.output = folder_.path("out.html"), .files_only = true}, progress));
  }

 private:
  TempFolder folder_;
  std::string log_;
};

report::Distribution report_distribution(const std::string& place) {
  return {.place = place,
          .count = 1000000,
          .zero = 0.125,
          .lowest = -30,
          .bins = {0.125, 0.25, 0.25, 0.125, 0.0625, 0.0625},
          .before = {.flush = 0.75, .subnormal = 0.125},
          .after = {.subnormal = 0.0625, .normal = 0.8125}};
}

report::LedgerLook report_ledger_look() {
  return {{{.op = "linear",
            .scope = "encoder.layer.*",
            .in = {DType::f16, DType::f16},
            .out = {DType::f16},
            .compute = DType::f16,
            .accum = DType::f32,
            .rule = Rule::low,
            .calls = 4,
            .flops = 1e6,
            .casts = 8,
            .bytes = 4096},
           {.op = "cross_entropy",
            .scope = "",
            .in = {DType::f32},
            .out = {DType::f32},
            .compute = DType::f32,
            .rule = Rule::full,
            .calls = 1,
            .bytes = 64}},
          {.calls = 5, .casts = 8, .bytes = 4160, .cast_bytes = 1040, .cast_share = 0.25},
          {.calls = 5, .casts = 8, .bytes = 9160, .cast_bytes = 6040, .cast_share = 0.66}};
}

/// A look at a step, made by hand.
report::StepLook report_step_look() {
  report::StepLook look;
  look.ledger = report_ledger_look();
  inspect::MemoryPlan plan;
  plan.rows = 4, plan.longest = 9, plan.tokens = 30;
  plan.weights = 4 << 20, plan.copies = 2 << 20, plan.gradients = 4 << 20, plan.optimizer = 8 << 20;
  plan.saved = {{"linear", 1 << 20}, {"gelu", 2 << 20}};
  plan.forward = 9 << 20, plan.backward = 21 << 20, plan.update = 20 << 20, plan.evaluation = 5 << 20;
  look.memory = plan;
  look.histograms =
      report::Histograms{.dtype = "f16",
                         .step = 6,
                         .scale = 65536,
                         .kinds = {{.name = "gradients of activations",
                                    .note = "activation gradients that are made up",
                                    .scaled = true,
                                    .places = {report_distribution(""), report_distribution("encoder.layer.0.*")}},
                                   {.name = "weights", .scaled = false, .places = {report_distribution("")}}}};
  return look;
}

report::RunConfig report_run_config() {
  return {.config = config::parse_config(R"({"task":{"data_dir":"/data"},"tokenizer":{"vocab":"/vocab.txt"},
"amp":{"dtype":"fp16"},"trainer":{"seed":7}})",
                                         "config.json", "/", {}),
          .fault = ""};
}

std::string report_of_log(const std::string& log) {
  const ReportedRun run;
  run.write("log.jsonl", log);
  run.remove("metrics.json");
  return run.html();
}

}  // namespace

TEST_CASE("report: the page of a run made by hand is its golden file") {
  const ReportedRun made;
  report::RunRecord run = made.read();
  run.dir = "runs/golden", run.name = "golden";
  std::string html = report::page(run, report_run_config(), report_step_look());
  const std::string version = "Made by mixtape " + config::build_info().version;
  REQUIRE(contains(html, version));
  html.replace(html.find(version), version.size(), "Made by mixtape VERSION");
  // When it changes on purpose: MIXTAPE_NEW_GOLDEN=1 build/release/bin/mixtape_tests -sf='*test_report.cpp'
  if (std::getenv("MIXTAPE_NEW_GOLDEN") != nullptr) std::ofstream(report_page_golden) << html;
  CHECK(html == slurp(report_page_golden));
}

TEST_CASE("report: what the files say is read back") {
  const ReportedRun made;
  const report::RunRecord run = made.read();
  CHECK(run.outcome == report::Outcome::finished);
  CHECK(run.steps_planned == 6);
  CHECK(run.steps.size() == 6);
  CHECK(std::isnan(run.steps[4].loss));
  CHECK(run.skips.size() == 2);
  CHECK(run.skipped() == 2);
  CHECK(run.skips[1].culprit == "encoder.layer.0");
  CHECK(run.evals.size() == 3);
  CHECK(run.evals[0].scores.confusion[0][1] == 1);
  CHECK(run.remarks.size() == 2);
  CHECK(run.result->best_step == 3);
  CHECK(run.origins->at("amp.dtype") == "--set");
  CHECK(run.damages.empty());
  CHECK(run.machine.front() == std::pair<std::string, std::string>{"mixtape: version", "0.1.0"});
}

TEST_CASE("report: text from files never becomes markup") {
  const ReportedRun made;
  const std::string evil = R"(<script>alert('&\"')</script>)";
  made.write("log.jsonl", R"({"event":"start","steps":1})"
                          "\n" +
                              report_step_line(1, "0.5", 1) +
                              R"({"event":"overflow","step":1,"loss_scale":1,"outcome":"x","parameters":[")" + evil +
                              R"("]})"
                              "\n"
                              R"({"event":"diverged","step":1,"text":")" +
                              evil + "\"}\n" + R"({"event":"eval","step":1,"split":")" + evil + R"(",)" +
                              report_scores(evil) + "}\n");
  made.remove("metrics.json");
  made.write("run.json",
             R"({"machine":{")" + evil + R"(":")" + evil + R"("},"origins":{"trainer.seed":")" + evil + "\"}}");
  const std::string html = made.html();
  CHECK_FALSE(contains(html, "<script"));
  CHECK(contains(html, "&lt;script&gt;alert('&amp;&quot;')&lt;/script&gt;"));
  CHECK(draw::escaped("a\x01\xFFz\xC3\xA9\"") == "a \xEF\xBF\xBDz\xC3\xA9&quot;");
}

TEST_CASE("report: unfinished, interrupted and diverged runs say so") {
  const std::string start = R"({"event":"start","steps":9})"
                            "\n" +
                            report_step_line(1, "0.5", 1);
  CHECK(contains(report_of_log(start), ">not finished</span>"));
  CHECK(contains(report_of_log(start), "1 of 9 steps."));
  CHECK(contains(report_of_log(start), "Nothing was evaluated yet."));
  const std::string stopped = message(start, R"({"event":"interrupted","step":1,"signal":"SIGTERM"})", "\n");
  CHECK(contains(report_of_log(stopped), ">interrupted</span>"));
  CHECK(contains(report_of_log(stopped), "stopped by SIGTERM"));
  CHECK(contains(report_of_log(stopped + R"({"event":"resume","step":1})"
                                         "\n"),
                 ">not finished</span>"));
  CHECK(contains(report_of_log(start + R"({"event":"diverged","step":1,"text":"50 in a row"})"
                                       "\n"),
                 ">diverged</span>"));
}

TEST_CASE("report: a log that is damaged, cut, empty or gone still gives a page that tells it") {
  const ReportedRun made;
  const std::string whole = made.log();
  const auto told = [&](const std::string& log, const std::string& what) {
    made.write("log.jsonl", log);
    const std::string html = made.html();
    CHECK(contains(html, what));
    CHECK(html.ends_with("</html>\n"));
  };
  told(whole.substr(0, whole.size() - 9), "line 16 of log.jsonl is cut or damaged");
  told(whole + "\x01\x02\n{\"event\":\n",
       "2 lines of log.jsonl are cut or damaged, and left out; the first is line 17");
  told("", "The log has no step yet.");
  told("[1,2]\n{\"event\":7}\n{}\n", "3 lines of log.jsonl");
  told(R"({"event":"step","step":-1e300,"loss":"x","outcome":4})"
       "\n"
       R"({"event":"eval","per_class":[{}],"confusion":[[-1]]})"
       "\n",
       "<h2");
  made.remove("log.jsonl");
  CHECK(contains(made.html(), "log.jsonl is missing"));
  made.write("metrics.json", "{\"val\":");
  made.write("run.json", "[]");
  CHECK(contains(made.html(), "metrics.json is cut or damaged"));
  CHECK(contains(made.html(), "run.json is cut or damaged"));
  made.remove("run.json");
  made.write("config.json", "{\"amp\":{\"dtype\":\"fp17\"}}");
  CHECK(contains(made.html(), "config.json cannot be read"));
  CHECK(contains(made.html(), "fp17"));
}

TEST_CASE("report: of a step that stands twice in the log the later line counts") {
  const ReportedRun made;
  made.write("log.jsonl", report_step_line(1, "0.9", 1) + report_step_line(2, "0.8", 1) +
                              report_step_line(3, "0.7", 1) +
                              R"({"event":"resume","step":1})"
                              "\n" +
                              report_step_line(2, "0.25", 1));
  const report::RunRecord run = made.read();
  REQUIRE(run.steps.size() == 2);
  CHECK(run.steps[1].loss == 0.25);
}

TEST_CASE("report: bf16 and f32 runs say why nothing is scaled; without origins the values that are set are told") {
  const ReportedRun made;
  made.write("log.jsonl", R"({"event":"start","steps":1})"
                          "\n" +
                              report_step_line(1, "0.5", 1));
  for (const auto& [dtype, word] : {std::pair{"bf16", "bf16 has the range of f32"}, {"off", "computes in f32"}}) {
    made.write("config.json", std::string(R"({"task":{"data_dir":"/d"},"tokenizer":{"vocab":"/v"},"amp":{"dtype":")") +
                                  dtype + "\"}}");
    const std::string html = made.html();
    CHECK(contains(html, word));
    CHECK_FALSE(contains(html, "<strong>Loss scale</strong>"));
  }
  CHECK(contains(made.html(), "my &amp; own.json:3:5"));
  made.write("run.json", "{}");
  CHECK(contains(made.html(), "set (an older run: not known where)"));
}

TEST_CASE("report: what is gone since the run is told in its place") {
  const ReportedRun made;
  trainer::Progress progress(trainer::Verbosity::quiet);
  const std::string html = slurp(report::write_report(made.dir(), {}, progress));
  CHECK(contains(html, "No ledger: E-VOCAB-MISSING: /gone/vocab.txt"));
  CHECK(contains(html, "No measurement of a step: E-VOCAB-MISSING"));
  CHECK(contains(html, "No histograms: E-"));
}

TEST_CASE("report: a long run keeps every skip, and stays small") {
  std::string log = R"({"event":"start","steps":100000})"
                    "\n";
  for (int64_t step = 1; step <= 100000; ++step) {
    if (step % 1000 == 0)
      log += message(R"({"event":"overflow","step":)", step,
                     R"(,"loss_scale":8,"outcome":"skipped_overflow","parameters":["a"]})", "\n");
    log += report_step_line(step, message(1.0 + static_cast<double>(step % 17) / 16), 8);
  }
  const std::string html = report_of_log(log);
  CHECK(html.size() < 400000);
  const size_t marks = html.find("<path class=\"mark s1\" d=\"M21");
  REQUIRE(marks != std::string::npos);
  const std::string path = html.substr(marks, html.find("/>", marks) - marks);
  CHECK(std::count(path.begin(), path.end(), 'M') == 100);
}

TEST_CASE("report: thinning keeps extremes, ends and gaps; the mean leaves out what is not finite") {
  std::vector<report::Chart::Point> points;
  for (int i = 0; i < 10000; ++i) points.emplace_back(i, i % 100);
  points[1234].second = 1e6;
  points[4321].second = -1e6;
  points[7777].second = std::numeric_limits<double>::quiet_NaN();
  const auto thin = report::thinned(points, 50);
  CHECK(thin.size() <= 250);
  CHECK(thin.front() == points.front());
  CHECK(thin.back() == points.back());
  const auto holds = [&](size_t i) { return std::find(thin.begin(), thin.end(), points[i]) != thin.end(); };
  CHECK(holds(1234));
  CHECK(holds(4321));
  CHECK(std::any_of(thin.begin(), thin.end(), [](const auto& p) { return std::isnan(p.second); }));
  CHECK(std::is_sorted(thin.begin(), thin.end(), [](const auto& a, const auto& b) { return a.first < b.first; }));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto mean = report::smoothed({{0, 1}, {1, nan}, {2, 3}, {3, 8}}, 3);
  CHECK(mean[0].second == 1);
  CHECK(mean[1].second == 2);
  CHECK(mean[2].second == 5.5);
  CHECK(std::isnan(report::smoothed({{0, nan}}, 3)[0].second));
}

TEST_CASE("report: figures are as people read them") {
  CHECK(report::grouped(int64_t{1234567}) == "1,234,567");
  CHECK(report::grouped(int64_t{-1000}) == "-1,000");
  CHECK(report::grouped(999.6) == "1,000");
  CHECK(report::in_bytes(1023) == "1023 bytes");
  CHECK(report::in_bytes(9.6 * 0x1p20) == "9.6 MiB");
  CHECK(report::duration(59.99) == "1 min 00 s");
  CHECK(report::duration(7383) == "2 h 03 min");
  CHECK(report::percent(0.00001) == "below 0.1 %");
  CHECK(report::percent(0) == "0 %");
  CHECK(report::power_html(65536) == "2<sup>16</sup>");
  CHECK(report::power_html(0.125) == "2<sup>-3</sup>");
  CHECK(report::power_html(3) == "3");
  CHECK(report::figure(std::numeric_limits<double>::infinity()) == "not finite");
}

TEST_CASE("report: the verb writes a page with ledger and memory, for runs of every dtype") {
  const TinyRun tiny;
  for (const std::string dtype : {"off", "bf16", "fp16"}) {
    CAPTURE(dtype);
    const std::string run = tiny.path("run-" + dtype);
    REQUIRE(run_program("train '" + tiny.config_path() + "' -q -s '" + run + "' --set amp.dtype=" + dtype).exit_code ==
            0);
    const std::string at_the_end = slurp(run + "/report.html");
    CHECK(contains(at_the_end, ">finished</span>"));
    CHECK(contains(at_the_end, "which mixtape report DIR runs"));
    const ProgramResult result = run_program("report '" + run + "'");
    CHECK(result.exit_code == 0);
    CHECK(result.out.empty());
    CHECK(result.err == "wrote " + run + "/report.html\n");
    const std::string html = slurp(run + "/report.html");
    CHECK(contains(html, "<code>linear</code>"));
    CHECK(contains(html, "saved for backward"));
    CHECK(contains(html, "<h3>Gradients of activations</h3>"));
    CHECK(contains(html, "<td class=\"number cell hit\""));
    CHECK(contains(html, "--set"));
    CHECK(run_program("report '" + run + "' -o '" + tiny.path("again.html") + "'").exit_code == 0);
    CHECK(slurp(tiny.path("again.html")) == html);  // nothing in it depends on the time
  }
}

TEST_CASE("report: what cannot be done names the place") {
  const TempFolder folder;
  const auto refused = [](const std::string& arguments, int exit_code, const std::string& word) {
    const ProgramResult result = run_program("report " + arguments);
    CAPTURE(result.err);
    CHECK(result.exit_code == exit_code);
    CHECK(contains(result.err, word));
  };
  refused("", 2, "DIR");
  refused("'" + folder.path("nowhere") + "'", 4, "is not there");
  refused("'" + folder.path("") + "'", 4, "holds no config.json");
  const ReportedRun made;
  refused("'" + made.dir() + "' --files-only -o /nowhere/a.html", 5, "/nowhere/a.html");
  refused("'" + made.dir() + "' --tensorboard /proc/nowhere", 5, "/proc/nowhere");
}

}  // namespace mixtape::tests
