// Every graph of attention_cudnn.cpp, checked by the real cuDNN for an H200 that is not there; and graphs that are
// wrong, each of which must be refused. What a graph computes is not seen here. Prints a line a graph; exit code 1 says
// that one came out otherwise.
#include <cstdio>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/kernels/attention_cudnn.h"

namespace {

using mixtape::DType;
using mixtape::kernels::device::SdpaGraph;
using mixtape::kernels::device::SdpaShape;

// An H200 SXM: compute capability 9.0, 132 multiprocessors, 227 KiB of shared memory a block on request, 141 GB.
const std::string h200 = R"({"deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
  "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
  "totalGlobalMem": 150754820096})";

/// "" where the library has an engine, else its words.
std::string supported(const SdpaShape& shape, bool backward, int64_t* workspace) {
  try {
    *workspace = SdpaGraph(shape, backward, h200).workspace();
    return "";
  } catch (const mixtape::Error& error) {
    return error.what();
  }
}

int failures = 0;

void expect(bool good, const std::string& graph, const std::string& words) {
  std::printf("%s %s%s%s\n", good ? "ok    " : "FAILED", graph.c_str(), words.empty() ? "" : ": ",
              words.substr(0, 240).c_str());
  failures += good ? 0 : 1;
}

SdpaShape bert(DType dtype, int64_t columns, bool ragged, double p, int64_t longest = 384) {
  const int64_t heads = 12;
  return {32, heads, longest, columns, 3 * heads * columns, dtype, ragged, 0.125F, p};
}

// An engine that kept the scores in memory would need 108 MiB for them; one that fuses all needs some KiB.
constexpr int64_t most_workspace = 1 << 20;

void right_graph(const SdpaShape& shape) {
  for (const bool backward : {false, true}) {
    int64_t bytes = 0;
    const std::string words = supported(shape, backward, &bytes);
    const std::string name = std::string(backward ? "backward " : "forward ") +
                             std::string(mixtape::name_of(shape.dtype)) + ", heads of " +
                             std::to_string(shape.columns) + ", up to " + std::to_string(shape.longest) +
                             (shape.ragged ? " ragged" : " padded") + (shape.p > 0 ? ", dropout 0.1" : ", no dropout");
    expect(words.empty() && bytes < most_workspace, name,
           words.empty() ? std::to_string(bytes) + " B of workspace" : words);
  }
}

void right_graphs() {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int64_t columns : {64, 32})
      for (const int64_t longest : {384, 77})  // 77: what a batch of real texts may be padded to
        for (const bool ragged : {false, true})
          for (const double p : {0.0, 0.1}) right_graph(bert(dtype, columns, ragged, p, longest));
}

// Each differs from a right graph in one thing.
void wrong_graphs() {
  for (const bool backward : {false, true}) {
    const SdpaShape right = bert(DType::bf16, 64, false, 0.0);
    SdpaShape type = right, odd = right, rate = right;
    type.dtype = DType::f32;
    odd.columns = 60, odd.row_stride = 3 * 12 * 60;
    rate.p = 1.5;
    for (const auto& [what, shape] : {std::pair("f32", type), {"heads of 60", odd}, {"dropout 1.5", rate}}) {
      int64_t bytes = 0;
      const std::string words = supported(shape, backward, &bytes);
      expect(!words.empty(), std::string(backward ? "backward " : "forward ") + what + " is refused", words);
    }
  }
}

}  // namespace

int main() {
  right_graphs();
  wrong_graphs();
  return failures == 0 ? 0 : 1;
}
