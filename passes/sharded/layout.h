// The 4D algorithm's layout, read off the graph's dimension classes and independent of the grid's
// sizes (arXiv 2305.13525):
//
//   batch          cut over data, then z
//   linear layers  contraction over x and output over y, or the reverse: a two-colouring of the
//                  feature classes, so that the output of one layer is cut as the next one reads it
//   heads          the output split of the projection, groups before the queries of a group
//   tokens         not at all, or over y where activations would be copied over y
//   vocabulary     over y and x together: the head gathers hidden and never all-reduces logits
#pragma once
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/op_def.h"
#include "passes/sharded/dim_classes.h"

namespace tessera {

enum class Color : std::uint8_t { X, Y };
inline Color other(Color color) { return color == Color::X ? Color::Y : Color::X; }

// A contraction of an activation with a parameter.
struct Linear {
  Op* op = nullptr;
  IndexMap map;
  std::size_t weight = 1;           // operand index of the parameter
  std::vector<ClassId> contracted;  // in both operands, not in the result
  std::vector<ClassId> output;      // in the parameter and the result only
};

// @micro or @forward; null if the module has neither.
Func* body_of(const Module& module);
// The parameter read directly or through movement that was not absorbed; else null.
const Value* param_behind(const Func& func, const Value* value);

// The leading dimension of the inputs; the one after it counts tokens.
struct Batch {
  std::int64_t size = -1;  // -1: there is none
  std::set<ClassId> classes, tokens;
};
Batch find_batch(const Module& module, const DimClasses& classes);

// Where the batch of an input of the body is cut in parts (split_micro_batch), the dimension before
// it counts them; the module notes how many there are.
std::int64_t sub_batches(const Module& module, const std::string& input);
std::size_t batch_dim(const Module& module, const std::string& input);

class Layout {
 public:
  explicit Layout(const Module& module);  // the module must have a body

  std::optional<Linear> as_linear(Op& op) const;
  // Of grouped heads, whether groups or queries are cut further by `more` devices after `parts` cut
  // both; other classes always are.
  bool takes_spare(ClassId id, int parts, int more) const;

  const DimClasses classes;
  const Batch batch;
  std::set<ClassId> vocabulary;
  // Either class of a pair -> (groups, queries of a group).
  std::map<ClassId, std::pair<ClassId, ClassId>> heads;
  std::map<ClassId, Color> colors;

 private:
  void find_heads();
  void find_vocabulary();
  std::optional<Color> color_of(const std::vector<ClassId>& ids) const;
  void paint(const std::vector<ClassId>& ids, Color color);
  void color_layers();

  Func& func_;
};

// Of `parts` devices for grouped heads, how many cut the groups; the rest cut the queries of a
// group, so that the largest piece is smallest.
int group_parts(std::int64_t groups, std::int64_t queries, int parts);

// Of `more` devices after `parts` cut both: whether they cut the groups, else the queries of one.
bool spare_cuts_groups(std::int64_t groups, std::int64_t queries, int parts, int more);

// Whether the op adds to a state of the function's: it then works on what is stored.
bool accumulates_state(const Func& func, const Op& op);

// Storage of a parameter: z cuts the outermost dimension that it divides, else the one that it
// divides least unevenly.
void cut_over_z(Type& type, const Grid& grid);
// The same for any axis: of optimizer state over data (ZeRO-1).
void cut_over(Type& type, const Grid& grid, AxisId axis);

}  // namespace tessera
