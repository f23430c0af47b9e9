// mixtape bench ops: single ops at BERT shapes, forward and backward, in f32 and bf16.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "autograd/backward.h"
#include "core/factory.h"
#include "core/kernels/parallel.h"
#include "ops/ops.h"
#include "tools/bench.h"
#include "tools/trainer/json.h"

namespace mixtape::tools {
namespace {

/// BERT-base.
constexpr int64_t hidden = 768, inner = 3072, heads = 12, vocabulary = 30522;

struct Case {
  std::string op, shape;
  std::function<Tensor(DType)> make_input;   ///< what is differentiated
  std::function<Tensor(const Tensor&)> run;  ///< the op
};

Tensor random(const Shape& shape, DType dtype) {
  return randn(shape, {.seed = 1, .stream = rng_stream::test}, 1.0, 0.0, dtype);
}

/// An operand in both dtypes, made once.
struct Operand {
  Tensor f32, bf16;
  explicit Operand(const Shape& shape) : f32(random(shape, DType::f32)), bf16(random(shape, DType::bf16)) {}
  const Tensor& beside(const Tensor& x) const { return x.dtype() == DType::bf16 ? bf16 : f32; }
};

Case linear(int64_t rows, int64_t in, int64_t out) {
  return {"linear", fmt::format("[{}, {}] x [{}, {}]", rows, in, out, in),
          [=](DType dtype) {
            return random({rows, in}, dtype);
          },
          [weight = Operand({out, in})](const Tensor& x) { return ops::linear(x, weight.beside(x)); }};
}

Case product(int64_t batch, int64_t m, int64_t k, int64_t n) {
  return {"batched_matmul", fmt::format("[{}, {}, {}] x [{}, {}]", batch, m, k, k, n),
          [=](DType dtype) {
            return random({batch, m, k}, dtype);
          },
          [right = Operand({batch, k, n})](const Tensor& x) { return ops::batched_matmul(x, right.beside(x)); }};
}

Case elementwise(std::string op, const Shape& shape, std::function<Tensor(const Tensor&)> run) {
  return {std::move(op), shape.str(), [=](DType dtype) { return random(shape, dtype); }, std::move(run)};
}

std::vector<Case> cases(int64_t batch, int64_t seq) {
  const int64_t rows = batch * seq;
  const Shape stream{rows, hidden}, wide{rows, inner}, scores{batch, heads, seq, seq};
  const Tensor gamma = full({hidden}, 1), beta = zeros({hidden});
  const Tensor mask = from_bools(std::vector<bool>(static_cast<size_t>(batch * seq), true), {batch, 1, 1, seq});
  std::vector<int64_t> ids(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) ids[static_cast<size_t>(i)] = i * 7919 % vocabulary;
  const Tensor index = from_ints(ids, {rows});
  std::vector<Case> all = {linear(rows, hidden, hidden), linear(rows, hidden, inner), linear(rows, inner, hidden),
                           product(batch * heads, seq, hidden / heads, seq)};
  all.push_back(elementwise("masked_softmax", scores, [=](const Tensor& x) { return ops::masked_softmax(x, mask); }));
  all.push_back(elementwise("layer_norm", stream, [=](const Tensor& x) { return ops::layer_norm(x, gamma, beta); }));
  all.push_back(elementwise("gelu", wide, [](const Tensor& x) { return ops::gelu(x); }));
  all.push_back(elementwise("dropout", stream, [](const Tensor& x) { return ops::dropout(x, 0.1); }));
  all.push_back(elementwise("add", stream, [](const Tensor& x) { return ops::add(x, x); }));
  all.push_back(
      elementwise("embedding", {vocabulary, hidden}, [=](const Tensor& x) { return ops::embedding(x, index); }));
  all.push_back(elementwise("add", {1}, [](const Tensor& x) { return ops::add(x, x); }));
  return all;
}

/// Median seconds of a call, over at least 5 calls and 50 ms.
double time_of(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();
  std::vector<double> times;
  for (double all = 0; times.size() < 5 || (all < 0.05 && times.size() < 10'000); all += times.back()) {
    const Clock::time_point start = Clock::now();
    call();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

struct Timing {
  double forward = 0, backward = 0;
};

Timing time_case(const Case& c, DType dtype) {
  const Tensor input = c.make_input(dtype).set_requires_grad();
  Timing out;
  out.forward = time_of([&] {
    const NoGradGuard no_grad;
    (void)c.run(input);
  });
  const Tensor seed = random(c.run(input).shape(), dtype);
  const double both = time_of([&] { (void)autograd::grad({c.run(input)}, {input}, {}, {seed}); });
  out.backward = std::max(0.0, both - out.forward);
  return out;
}

}  // namespace

std::string bench_ops(int64_t batch, int64_t seq, bool json) {
  std::string table = fmt::format("{:15} {:32} {:>10} {:>10} {:>10} {:>10}   microseconds\n", "op", "shape", "f32 fwd",
                                  "f32 bwd", "bf16 fwd", "bf16 bwd");
  trainer::Json list = trainer::Json::array();
  for (const Case& c : cases(batch, seq)) {
    const Timing f32 = time_case(c, DType::f32), bf16 = time_case(c, DType::bf16);
    table += fmt::format("{:15} {:32} {:10.1f} {:10.1f} {:10.1f} {:10.1f}\n", c.op, c.shape, f32.forward * 1e6,
                         f32.backward * 1e6, bf16.forward * 1e6, bf16.backward * 1e6);
    list.push(trainer::Json::object()
                  .set("op", c.op)
                  .set("shape", c.shape)
                  .set("f32_forward_s", f32.forward)
                  .set("f32_backward_s", f32.backward)
                  .set("bf16_forward_s", bf16.forward)
                  .set("bf16_backward_s", bf16.backward));
  }
  if (!json) return table;
  return trainer::Json::object()
             .set("mode", "ops")
             .set("batch", batch)
             .set("seq", seq)
             .set("threads", kernels::thread_count())
             .set("ops", std::move(list))
             .line() +
         "\n";
}

}  // namespace mixtape::tools
