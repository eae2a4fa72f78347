// Which initializers are parameters: decided by what reads them, and by the user.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "frontend/import_onnx.h"
#include "frontend/model_file.h"

namespace onnx {
class GraphProto;
}

namespace tessera {

struct InitializerRole {
  bool parameter = false;
  std::string reason;  // for the remark
};

class ParameterRules {
 public:
  ParameterRules(const ModelFile& file, const onnx::GraphProto& graph,
                 const ImportOptions& options);

  const InitializerRole& role(const std::string& initializer) const {
    return roles_.at(initializer);
  }
  // The lookup table that this initializer is a copy of ("" if none), and whether the copy is
  // transposed.
  struct Tie {
    std::string table;
    bool transposed = false;
  };
  const std::map<std::string, Tie>& ties() const { return ties_; }

 private:
  struct Use {
    int node;
    int input;
  };
  InitializerRole decide(const onnx::TensorProto& tensor) const;
  void collect_uses(const std::string& name, std::vector<Use>& uses, int depth) const;
  bool leads_only_to_trig(const std::string& name, int depth) const;
  bool has_mask_values(const onnx::TensorProto& tensor) const;
  void find_ties();

  const ModelFile& file_;
  const onnx::GraphProto& graph_;
  const ImportOptions& options_;
  std::map<std::string, std::vector<Use>> readers_;
  std::map<std::string, InitializerRole> roles_;
  std::map<std::string, Tie> ties_;
};

// Sets WeightSource::trainable by --freeze and --trainable. Throws when a pattern matches nothing.
void apply_trainable_patterns(Module& module, const ImportOptions& options);

}  // namespace tessera
