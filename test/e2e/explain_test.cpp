// `tessera explain` in all its forms, on a plan that the search chose.
#include "frontend/zoo.h"
#include "ir/base/file.h"
#include "passes/cost/machine.h"
#include "test/support/compile.h"
#include "test/support/shell.h"

namespace tessera::test {
namespace {

class Explain : public testing::Test {
 protected:
  void SetUp() override {
    write_zoo_model({"gpt", 4, 1024, 16, 8192, 512, 0, 0, DType::BF16}, scratch_ / "m.onnx");
    compile("--strategy megatron-sp --grid 'data=*,y=4'", "plan");
    compile("--strategy axonn", "other");
  }
  void compile(const std::string& more, const std::string& plan) const {
    const Finished done =
        shell(str(tool("tessera"), " compile ", (scratch_ / "m.onnx").string(),
                  " --train --bind batch=32,sequence=512 --machine perlmutter --devices 16 ", more,
                  " -o ", (scratch_ / plan).string()));
    ASSERT_EQ(done.code, 0) << done.output;
  }
  Finished explain(const std::string& flags) const {
    return shell(str(tool("tessera"), " explain ", (scratch_ / "plan").string(), " ", flags));
  }
  void expect(const Finished& done, std::initializer_list<const char*> parts) const {
    EXPECT_EQ(done.code, 0) << done.output;
    for (const char* part : parts)
      EXPECT_NE(done.output.find(part), std::string::npos) << part << "\n" << done.output;
  }
  const Scratch scratch_;
};

TEST_F(Explain, SaysWhatWonAndWhatLost) {
  expect(explain(""), {"scatter tokens", "memory of a rank", "runners-up", "chosen", "megatron-sp",
                       "no plan on this machine"});
  const auto json = nlohmann::json::parse(explain("--json").output);
  EXPECT_GT(json.at("search").at("grids").size(), 0u);
  EXPECT_GT(json.at("seconds").get<double>(),
            json.at("search").at("lower_bound_seconds").get<double>());
}

TEST_F(Explain, SaysWhyACollectiveIsThere) {
  const Plan plan = read_plan(scratch_ / "plan");
  const PlanFunc& micro = *plan.find("micro");
  int gathers = 0, scatters = 0;
  for (const PlanStep& step : micro.steps) {
    if (step.fused() || step.comm < 0 || gathers + scatters > 8) continue;
    const std::string& name = micro.values[static_cast<std::size_t>(step.results[0])].name;
    if (step.kind == OpKind::AllGather && gathers++ < 2)
      expect(explain("--why " + name), {"all_gather", "because", "readers need", "elsewhere"});
    if (step.kind == OpKind::ReduceScatter && scatters++ < 2)
      expect(explain("--why %" + name), {"reduce_scatter", "because", "addends over", "elsewhere"});
  }
  EXPECT_GT(gathers, 0);
  EXPECT_GT(scatters, 0);
  const Finished unknown = explain("--why nothing.of.that.name");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.output.find("no value"), std::string::npos);
}

TEST_F(Explain, SaysWhatDiffers) {
  expect(explain("--diff " + (scratch_ / "other").string()),
         {"A  grid data=4,z=1,y=4,x=1", "B  grid", "collectives", "over y", "of A's time"});
  expect(explain("--diff " + (scratch_ / "plan").string()), {"100.0% of A's time", "same"});
}

TEST_F(Explain, WritesAPageThatNeedsNothingElse) {
  expect(explain("--html " + (scratch_ / "page.html").string()), {});
  const std::string page = read_text(scratch_ / "page.html");
  EXPECT_EQ(page.find("@TESSERA_DATA@"), std::string::npos);
  EXPECT_EQ(page.find("http://"), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
  const std::string mark = "type=\"application/json\">";
  const std::size_t begin = page.find(mark) + mark.size();
  const auto data =
      nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_GT(data.at("timeline").size(), 100u);
  EXPECT_GT(data.at("tensors").size(), 5u);
}

// Figures are never shown as if they were of another machine (case G1).
TEST_F(Explain, CostsAgainForAnotherMachine) {
  const auto here = nlohmann::json::parse(explain("--json").output);
  const auto there = nlohmann::json::parse(explain("--json --machine frontier").output);
  EXPECT_NE(here.at("seconds"), there.at("seconds"));
  EXPECT_TRUE(here.contains("search"));
  EXPECT_FALSE(there.contains("search"));
  // A machine file of the same name with other figures is another machine.
  const auto& presets = machine_presets();
  const auto preset = std::ranges::find(presets, "perlmutter", &Preset::name);
  auto machine = nlohmann::json::parse(preset->json);
  machine["device"]["memory_bandwidth"] = 1e12;
  write_text(scratch_ / "m.json", machine.dump());
  const auto slower =
      nlohmann::json::parse(explain("--json --machine " + (scratch_ / "m.json").string()).output);
  EXPECT_NE(here.at("seconds"), slower.at("seconds"));
  EXPECT_FALSE(slower.contains("search"));
  // So is the table of another plan.
  write_text(scratch_ / "plan" / "search.json", read_text(scratch_ / "other" / "search.json"));
  EXPECT_FALSE(nlohmann::json::parse(explain("--json").output).contains("search"));
  write_text(scratch_ / "plan" / "search.json", "{\"grids\": 3}");
  EXPECT_EQ(explain("").code, 2);
}

}  // namespace
}  // namespace tessera::test
