// Ranks that die or stop: the job ends within seconds and names what was lost.
#include <sys/wait.h>

#include "test/support/compile.h"

namespace tessera::test {
namespace {

// Runs an endless training job under mpirun, sends `signal` to its last rank, and returns exit
// code, seconds and output.
std::string with_lost_rank(const std::string& signal, const fs::path& plan,
                           const ModelCase& model) {
  const std::string script =
      str("cd / ; out=$(mktemp); timeout -k 5 60 mpirun --allow-run-as-root --oversubscribe "
          "--bind-to none -n 4 ",
          TESSERA_BIN, "/tessera-run ", plan.string(),
          " --timeout 3 --steps 1000000 --quiet --input input_ids=",
          (model.folder / "input_ids.npy").string(),
          " --input labels=", (model.folder / "labels.npy").string(),
          " > $out 2>&1 & job=$!; for i in $(seq 100); do sleep 0.1; ",
          "for p in $(pgrep -f '^[^ ]*tessera-run ", plan.string(),
          "'); do grep -qzx OMPI_COMM_WORLD_RANK=3 /proc/$p/environ && victim=$p; done; ",
          "[ -n \"$victim\" ] && break; done; sleep 1.5; kill -", signal,
          " $victim; start=$(date +%s); wait $job; echo code $? seconds $(( $(date +%s) - start "
          ")); cat $out; ",
          "pkill -KILL -f '^[^ ]*tessera-run ", plan.string(), "'; true");
  FILE* pipe = ::popen(str(
                           "bash -c \"",
                           [&] {
                             std::string escaped;
                             for (char c : script) {
                               if (c == '"' || c == '$' || c == '\\') escaped += '\\';
                               escaped += c;
                             }
                             return escaped;
                           }(),
                           "\"")
                           .c_str(),
                       "r");
  std::string output;
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.append(buffer, got);
  ::pclose(pipe);
  return output;
}

class LostRanks : public testing::TestWithParam<const char*> {};

TEST_P(LostRanks, EndTheJob) {
  if (!has_mpi()) GTEST_SKIP() << "this build has no MPI";
  const ModelCase model("gpt2_odd");
  const Scratch scratch;
  compile_model(model.training("data=2,z=2", scratch / "plan"));
  const std::string output = with_lost_rank(GetParam(), scratch / "plan", model);
  const std::size_t at = output.find("seconds ");
  ASSERT_NE(at, std::string::npos) << output;
  EXPECT_EQ(output.find("code 0 "), std::string::npos) << output;
  EXPECT_LE(std::stoi(output.substr(at + 8)), 15) << output;
  if (std::string(GetParam()) == "STOP") {
    EXPECT_NE(output.find("waited 3 s for rank 3"), std::string::npos) << output;
  }
}

INSTANTIATE_TEST_SUITE_P(Signals, LostRanks, testing::Values("KILL", "STOP"));

}  // namespace
}  // namespace tessera::test
