// What is written to a terminal and what to a file.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/shared.h"
#include "tools/trainer/progress.h"

namespace mixtape::trainer {
namespace {
using tests::contains;

/// A screen whose clock and width the test sets.
struct Fake {
  std::string text;
  double time = 1000;
  size_t columns = 120;
  Screen screen(bool terminal) {
    Screen out;
    out.terminal = terminal;
    out.width = [this] { return columns; };
    out.now = [this] { return time; };
    out.write = [this](std::string_view piece) { text += piece; };
    return out;
  }
};

StepStatus example() {
  return {.epoch = 2,
          .epochs = 3,
          .step = 1028,
          .steps = 2235,
          .loss = 0.4123,
          .grad_norm = 0.83,
          .lr = 1.2e-5,
          .loss_scale = 65536,
          .skipped = 1,
          .tokens_per_s = 1850.2,
          .eta_s = 252};
}
const std::string whole =
    "epoch 2/3 step 1028/2235 46% loss 0.412 gnorm 0.83 lr 1.2e-05 scale 65536 skip 1 1850 tok/s ETA 04:12";
}  // namespace

TEST_CASE("the line of a step") {
  CHECK(step_line(example(), 200) == whole);
  CHECK(step_line(example(), whole.size()) == whole);
  StepStatus plain = example();
  plain.loss_scale = 1;
  plain.skipped = 0;
  CHECK_FALSE(contains(step_line(plain, 200), "scale"));
  CHECK_FALSE(contains(step_line(plain, 200), "skip"));
}

TEST_CASE("a narrow terminal loses what says least") {
  for (size_t width = 0; width <= whole.size(); ++width) {
    const std::string line = step_line(example(), width);
    CHECK(line.size() <= width);
    if (width >= 40) CHECK(contains(line, "step 1028/2235"));
    if (width >= 40) CHECK(contains(line, "loss 0.412"));
    if (width >= 40) CHECK(contains(line, "ETA 04:12"));
  }
}

TEST_CASE("values that are not finite, tiny or huge stay readable") {
  StepStatus odd = example();
  odd.loss = std::numeric_limits<double>::quiet_NaN();
  odd.grad_norm = std::numeric_limits<double>::infinity();
  odd.loss_scale = 16777216;
  odd.lr = 0;
  CHECK(contains(step_line(odd, 200), "loss nan gnorm inf lr 0 scale 16777216 "));
  odd.loss = 1.25e-7;
  odd.grad_norm = 4.5e8;
  CHECK(contains(step_line(odd, 200), "loss 1.2e-07 gnorm 4.5e+08"));
  odd.step = odd.steps - 1;
  CHECK(contains(step_line(odd, 200), " 99% "));
  odd.step = odd.steps = 1'000'000'000'000;
  CHECK(contains(step_line(odd, 200), "step 1000000000000/1000000000000 100%"));
}

TEST_CASE("durations") {
  CHECK(duration_text({}) == "--:--");
  CHECK(duration_text(0) == "00:00");
  CHECK(duration_text(59.2) == "01:00");
  CHECK(duration_text(252) == "04:12");
  CHECK(duration_text(3599) == "59:59");
  CHECK(duration_text(7452) == "2:04:12");
  CHECK(duration_text(86400 * 3 + 4 * 3600) == "3d 04h");
  CHECK(duration_text(-1) == "--:--");
  CHECK(duration_text(1e30) == "--:--");
  CHECK(duration_text(std::numeric_limits<double>::quiet_NaN()) == "--:--");
}

TEST_CASE("into a file: whole lines at the log's pace, no CR, no escape codes") {
  Fake fake;
  {
    Progress progress(Verbosity::normal, fake.screen(false));
    progress.note("plan");
    for (int i = 0; i < 5; ++i) progress.step(example(), i == 3);
    progress.warning("careful\n");
    progress.detail("only with -v");
  }
  CHECK(fake.text == "plan\n" + whole + "\ncareful\n");
}

TEST_CASE("on a terminal: one line, redrawn at most ten times a second, cleared before other lines") {
  Fake fake;
  {
    Progress progress(Verbosity::normal, fake.screen(true));
    progress.step(example(), false);
    progress.step(example(), true);  // too soon
    CHECK(fake.text == "\r\x1b[K" + whole);
    fake.time += 0.11;
    progress.step(example(), false);
    CHECK(fake.text == "\r\x1b[K" + whole + "\r\x1b[K" + whole);
    fake.text.clear();
    progress.note("a line");
    CHECK(fake.text == "\r\x1b[Ka line\n");
    fake.text.clear();
    fake.columns = 41;  // the window shrank
    progress.step(example(), false);
    CHECK(fake.text.size() <= 4 + 40);
    fake.text.clear();
  }
  CHECK(fake.text == "\r\x1b[K");  // nothing stays behind
}

TEST_CASE("-q leaves warnings, -v adds details") {
  Fake fake;
  Progress quiet(Verbosity::quiet, fake.screen(false));
  quiet.note("plan");
  quiet.detail("detail");
  quiet.step(example(), true);
  quiet.warning("careful");
  CHECK(fake.text == "careful\n");
  fake.text.clear();
  Progress(Verbosity::verbose, fake.screen(false)).detail("detail");
  CHECK(fake.text == "detail\n");
}

TEST_CASE("other work shows itself after two seconds") {
  Fake fake;
  {
    Progress progress(Verbosity::normal, fake.screen(false));
    Activity activity(progress, "tokenizing train", 500);
    activity.done(1);
    fake.time += 1.9;
    activity.done(100);
    CHECK(fake.text.empty());
    fake.time += 0.2;
    activity.done(110);
    CHECK(fake.text == "tokenizing train 110/500\n");
    fake.time += 5;
    activity.done(200);
    CHECK(fake.text == "tokenizing train 110/500\n");
    fake.time += 5;
    activity.done(300);
    CHECK(fake.text == "tokenizing train 110/500\ntokenizing train 300/500\n");
  }
  fake.text.clear();
  {
    Progress progress(Verbosity::normal, fake.screen(true));
    Activity activity(progress, "evaluating val", 0);
    fake.time += 3;
    activity.done(64);
    CHECK(fake.text == "\r\x1b[Kevaluating val");
  }
  CHECK(contains(fake.text, "evaluating val\r\x1b[K"));
}

}  // namespace mixtape::trainer
