// tessera-opt: text -> passes -> text, for looking at any pass.
#include <algorithm>
#include <iostream>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "ir/dump.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/pass_manager.h"
#include "tools/guarded.h"
#include "tools/layout_options.h"

namespace tessera {
namespace {

std::string flag_of(std::string_view pass) {
  std::string flag = "--" + std::string(pass);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

struct Flags {
  std::string file, optimizer = "adamw", grid;
  std::filesystem::path dump_dir, output;
  bool list = false, verify_each = true, remarks = false, no_verify = false;
  PassOptions options;
};

void list_passes() {
  for (const Pass& pass : all_passes())
    std::cout << flag_of(pass.name) << "  " << name(pass.from) << " -> " << name(pass.to) << "  "
              << pass.summary << "\n";
}

// Passes run in the order in which their flags are given.
std::vector<const Pass*> take_passes(std::vector<std::string>& args) {
  std::vector<const Pass*> passes;
  std::erase_if(args, [&](const std::string& arg) {
    for (const Pass& pass : all_passes()) {
      if (arg == flag_of(pass.name)) {
        passes.push_back(&pass);
        return true;
      }
    }
    return false;
  });
  return passes;
}

int run(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  const std::vector<const Pass*> passes = take_passes(args);
  Flags f;
  CLI::App app("Runs passes on a module: tessera-opt FILE.tir --pass-name ...", "tessera-opt");
  app.add_option("file", f.file, "The module (.tir)");
  app.add_flag("--list-passes", f.list, "List all passes");
  app.add_flag("--verify-each", f.verify_each, "Verify after each pass (always on)");
  app.add_flag("--no-verify", f.no_verify, "Do not verify the module that is read");
  app.add_flag("--remarks", f.remarks, "Print what passes have to say, to stderr");
  app.add_option("--dump-dir", f.dump_dir, "NN.pass.tir after each pass");
  app.add_option("--grid", f.grid, "Set the module's grid, data=2,z=1,y=2,x=2");
  app.add_option("-o", f.output, "Write the result here instead of to stdout");
  app.add_option("--loss", f.options.loss, "cross_entropy or output:NAME");
  app.add_option("--logits", f.options.logits, "The output that holds the logits");
  app.add_option("--labels", f.options.labels, "Name of the label input");
  app.add_option("--optimizer", f.optimizer, "adamw:lr=1e-3,...");
  app.add_option("--clip-norm", f.options.clip_norm, "Clip gradients by their global norm");
  app.add_option("--micro-batches", f.options.micro_batches, "Micro-batches a step");
  app.add_option("--machine", f.options.machine,
                 "Whose costs passes take: a preset or a machine file");
  add_layout_options(app, f.options);
  std::ranges::reverse(args);
  if (const auto code = parse_command_line(app, args)) return *code;
  if (f.list) {
    list_passes();
    return 0;
  }
  if (f.file.empty())
    throw CompileError("", "no module is named", {"usage: tessera-opt FILE.tir --pass-name ..."});
  f.options.optimizer = parse_optimizer(f.optimizer);
  Module module = read_module(f.file);
  if (!f.grid.empty()) module.grid = Grid::parse(f.grid, "--grid");
  if (!f.no_verify) verify_or_throw(module, "");
  PassContext context{f.options, {}};
  if (!f.dump_dir.empty()) std::filesystem::create_directories(f.dump_dir);
  PassManager({f.dump_dir, true}).run(module, passes, context);
  for (const std::string& remark : context.remarks) {
    if (f.remarks) std::cerr << "remark: " << remark << "\n";
  }
  if (f.output.empty()) {
    std::cout << to_text(module);
  } else {
    write_module(module, f.output);
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::guarded([&] { return tessera::run(argc, argv); });
}
