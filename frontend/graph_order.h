// Order and size of graphs, before anything is translated.
#pragma once
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class ModelProto;
}  // namespace onnx

namespace tessera {

// Node indices such that every node follows what it reads (files need not be sorted). Throws
// CompileError naming a node when there is a cycle.
std::vector<int> topological_order(const onnx::GraphProto& graph, const std::string& where);

// Throws CompileError when inlining local functions would give more than `limit` nodes, or would
// not end.
void check_expansion(const onnx::ModelProto& model, int limit, const std::string& where);

}  // namespace tessera
