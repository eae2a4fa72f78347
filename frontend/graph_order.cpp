#include "frontend/graph_order.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <queue>
#include <set>

#include "ir/base/attr.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

// Names a node reads, its subgraphs' included.
void collect_reads(const onnx::NodeProto& node, std::set<std::string>& names, int depth) {
  for (const std::string& input : node.input()) names.insert(input);
  if (depth > 40) return;
  for (const auto& attr : node.attribute()) {
    if (!attr.has_g()) continue;
    for (const auto& inner : attr.g().node()) collect_reads(inner, names, depth + 1);
    for (const auto& output : attr.g().output()) names.insert(output.name());
  }
}

}  // namespace

std::vector<int> topological_order(const onnx::GraphProto& graph, const std::string& where) {
  std::map<std::string, int> producer;
  for (int n = 0; n < graph.node_size(); ++n) {
    for (const std::string& output : graph.node(n).output()) {
      if (output.empty()) continue;
      if (!producer.emplace(output, n).second)
        throw CompileError(where,
                           str("the name ", in_quotes(output), " is the output of two nodes"));
    }
  }
  std::vector<std::vector<int>> followers(static_cast<std::size_t>(graph.node_size()));
  std::vector<int> waits(static_cast<std::size_t>(graph.node_size()), 0);
  for (int n = 0; n < graph.node_size(); ++n) {
    std::set<std::string> reads;
    collect_reads(graph.node(n), reads, 0);
    std::set<int> before;
    for (const std::string& name : reads) {
      const auto found = producer.find(name);
      if (found != producer.end() &&
          (found->second != n ||
           std::ranges::find(graph.node(n).input(), name) != graph.node(n).input().end()))
        before.insert(found->second);
    }
    for (int p : before) followers[static_cast<std::size_t>(p)].push_back(n);
    waits[static_cast<std::size_t>(n)] = static_cast<int>(before.size());
  }
  std::priority_queue<int, std::vector<int>, std::greater<>>
      ready;  // file order where there is a choice
  for (int n = 0; n < graph.node_size(); ++n) {
    if (waits[static_cast<std::size_t>(n)] == 0) ready.push(n);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int n = ready.top();
    ready.pop();
    order.push_back(n);
    for (int f : followers[static_cast<std::size_t>(n)]) {
      if (--waits[static_cast<std::size_t>(f)] == 0) ready.push(f);
    }
  }
  if (static_cast<int>(order.size()) == graph.node_size()) return order;
  for (int n = 0; n < graph.node_size(); ++n) {
    if (waits[static_cast<std::size_t>(n)] > 0) {
      throw CompileError(where, str("node '", graph.node(n).name(), "' (", graph.node(n).op_type(),
                                    ") is part of a cycle"));
    }
  }
  return order;
}

void check_expansion(const onnx::ModelProto& model, int limit, const std::string& where) {
  std::map<std::string, const onnx::FunctionProto*> functions;
  for (const auto& function : model.functions())
    functions[str(function.domain(), "::", function.name())] = &function;
  std::map<std::string, std::int64_t> sizes;  // -1: being counted
  const auto count = [&](auto&& self, const auto& nodes) -> std::int64_t {
    std::int64_t total = 0;
    for (const auto& node : nodes) {
      const std::string key = str(node.domain(), "::", node.op_type());
      const auto function = functions.find(key);
      std::int64_t own = 1;
      if (function != functions.end()) {
        const auto known = sizes.find(key);
        if (known != sizes.end() && known->second < 0)
          throw CompileError(where, str("local function ", key, " calls itself"));
        if (known == sizes.end()) {
          sizes[key] = -1;
          sizes[key] = self(self, function->second->node());
        }
        own = sizes[key];
      }
      total += own;
      if (total > limit)
        throw CompileError(where,
                           str("inlining local functions gives more than ", limit, " nodes"));
    }
    return total;
  };
  count(count, model.graph().node());
}

}  // namespace tessera
