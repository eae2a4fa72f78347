#include "runtime/collectives.h"

#include <algorithm>
#include <cstring>

#include "ir/base/check.h"
#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/permute.h"

namespace tessera {
namespace {

template <class T>
void combine(ReduceOp op, T* into, const T* from, std::int64_t count) {
  switch (op) {
    case ReduceOp::Sum:
      for (std::int64_t i = 0; i < count; ++i) into[i] = static_cast<T>(into[i] + from[i]);
      return;
    case ReduceOp::Max:
      for (std::int64_t i = 0; i < count; ++i)
        into[i] = into[i] != into[i] || into[i] > from[i] ? into[i] : from[i];
      return;
    case ReduceOp::Min:
      for (std::int64_t i = 0; i < count; ++i)
        into[i] = into[i] != into[i] || into[i] < from[i] ? into[i] : from[i];
      return;
    case ReduceOp::Prod:
      for (std::int64_t i = 0; i < count; ++i) into[i] = static_cast<T>(into[i] * from[i]);
      return;
  }
}

void combine(DType dtype, ReduceOp op, std::byte* into, const std::byte* from, std::int64_t count) {
  cpu::with_number(dtype, OpKind::AllReduce, [&](auto zero) {
    using T = decltype(zero);
    combine(op, reinterpret_cast<T*>(into), reinterpret_cast<const T*>(from), count);
  });
}

class Collective {
 public:
  Collective(const CollectiveCall& call, Group& group)
      : call_(call),
        group_(group),
        bytes_(byte_size(call.operand_type->dtype)),
        members_(static_cast<std::size_t>(group.size())) {
    const Coordinates at = call.grid->coordinates(call.rank);
    operand_shape_ = local_shape(*call.operand_type, *call.grid, at);
    result_shape_ = local_shape(*call.result_type, *call.grid, at);
    operand_start_ = local_offsets(*call.operand_type, *call.grid, at);
    result_start_ = local_offsets(*call.result_type, *call.grid, at);
  }

  void run() {
    switch (call_.kind) {
      case OpKind::AllReduce:
        return all_reduce();
      case OpKind::AllGather:
        return all_gather();
      case OpKind::ReduceScatter:
        return reduce_scatter();
      case OpKind::AllToAll:
        return all_to_all();
      default:
        internal_error(__FILE__, __LINE__, "not a communicating collective");
    }
  }

 private:
  Coordinates member_coordinates(std::size_t member) const {
    return call_.grid->coordinates(group_.members()[member]);
  }
  std::size_t size_of(const Shape& shape) const {
    return static_cast<std::size_t>(elements(shape)) * bytes_;
  }

  // A box of a dense local tensor: `box` elements from `start` (relative to the tensor).
  void pack(const std::byte* tensor, const Shape& shape, const Shape& start, const Shape& box,
            std::byte* out) const {
    const auto strides = row_major_strides(shape);
    cpu::copy_strided(tensor + offset(start, strides), box, strides, out, bytes_);
  }
  void unpack(const std::byte* in, const Shape& box, const Shape& start, const Shape& shape,
              std::byte* tensor) const {
    const auto strides = row_major_strides(shape);
    cpu::scatter_strided(in, box, strides, tensor + offset(start, strides), bytes_);
  }
  std::size_t offset(const Shape& start, const std::vector<std::int64_t>& strides) const {
    std::int64_t elements_before = 0;
    for (std::size_t d = 0; d < start.size(); ++d) elements_before += start[d] * strides[d];
    return static_cast<std::size_t>(elements_before) * bytes_;
  }

  // Two exchanges: every member adds one part of the elements in member order, then all get all
  // parts.
  void all_reduce() {
    const std::int64_t count = elements(operand_shape_);
    const auto part = [&](std::size_t member) {
      return cut({0, count}, group_.size(), static_cast<int>(member));
    };
    const auto at = [&](std::size_t member) {
      return static_cast<std::size_t>(part(member).start) * bytes_;
    };
    const auto size = [&](std::size_t member) {
      return static_cast<std::size_t>(part(member).size) * bytes_;
    };
    const auto me = static_cast<std::size_t>(group_.index());
    std::vector<std::byte> staged(size(me) * members_);
    std::vector<ConstBytes> send(members_);
    std::vector<Bytes> receive(members_);
    for (std::size_t m = 0; m < members_; ++m) {
      send[m] = {call_.operand + at(m), size(m)};
      receive[m] = {staged.data() + m * size(me), size(me)};
    }
    group_.exchange(send, receive, call_.what);
    for (std::size_t m = 1; m < members_; ++m) {
      combine(call_.operand_type->dtype, call_.operand_type->partial.op, staged.data(),
              receive[m].data, part(me).size);
    }
    for (std::size_t m = 0; m < members_; ++m) {
      send[m] = {staged.data(), size(me)};
      receive[m] = {call_.result + at(m), size(m)};
    }
    group_.exchange(send, receive, call_.what);
  }

  void all_gather() {
    std::vector<std::vector<std::byte>> staged(members_);
    std::vector<ConstBytes> send(members_, {call_.operand, size_of(operand_shape_)});
    std::vector<Bytes> receive(members_);
    const bool direct = is_leading_dim();
    for (std::size_t m = 0; m < members_; ++m) {
      const Shape shape = local_shape(*call_.operand_type, *call_.grid, member_coordinates(m));
      if (direct) {  // pieces of the outermost dimension land in place
        const Shape start = relative_start(m);
        receive[m] = {call_.result + offset(start, row_major_strides(result_shape_)),
                      size_of(shape)};
      } else {
        staged[m].resize(size_of(shape));
        receive[m] = {staged[m].data(), staged[m].size()};
      }
    }
    group_.exchange(send, receive, call_.what);
    for (std::size_t m = 0; m < members_ && !direct; ++m) {
      const Shape shape = local_shape(*call_.operand_type, *call_.grid, member_coordinates(m));
      unpack(staged[m].data(), shape, relative_start(m), result_shape_, call_.result);
    }
  }

  bool is_leading_dim() const {
    const auto dim = static_cast<std::size_t>(call_.attrs->integer("dim"));
    return std::all_of(result_shape_.begin(),
                       result_shape_.begin() + static_cast<std::ptrdiff_t>(dim),
                       [](std::int64_t s) { return s == 1; });
  }

  // Where a member's operand piece lies in this rank's result.
  Shape relative_start(std::size_t member) const {
    Shape start = local_offsets(*call_.operand_type, *call_.grid, member_coordinates(member));
    for (std::size_t d = 0; d < start.size(); ++d) start[d] -= result_start_[d];
    return start;
  }

  // Every member gets the box that its result is, from all, and adds in member order.
  void reduce_scatter() {
    std::vector<std::vector<std::byte>> packed(members_);
    std::vector<ConstBytes> send(members_);
    std::vector<Bytes> receive(members_);
    const std::size_t own = size_of(result_shape_);
    std::vector<std::byte> staged(own * members_);
    for (std::size_t m = 0; m < members_; ++m) {
      const Coordinates at = member_coordinates(m);
      const Shape box = local_shape(*call_.result_type, *call_.grid, at);
      Shape start = local_offsets(*call_.result_type, *call_.grid, at);
      for (std::size_t d = 0; d < start.size(); ++d) start[d] -= operand_start_[d];
      packed[m].resize(size_of(box));
      pack(call_.operand, operand_shape_, start, box, packed[m].data());
      send[m] = {packed[m].data(), packed[m].size()};
      receive[m] = {staged.data() + m * own, own};
    }
    group_.exchange(send, receive, call_.what);
    for (std::size_t m = 1; m < members_; ++m) {
      combine(call_.operand_type->dtype, call_.operand_type->partial.op, staged.data(),
              receive[m].data, elements(result_shape_));
    }
    if (own > 0) std::memcpy(call_.result, staged.data(), own);
  }

  // The operand is whole along `to` and a piece along `from`; the result the other way round.
  void all_to_all() {
    const auto from = static_cast<std::size_t>(call_.attrs->integer("from"));
    const auto to = static_cast<std::size_t>(call_.attrs->integer("to"));
    std::vector<std::vector<std::byte>> packed(members_), staged(members_);
    std::vector<ConstBytes> send(members_);
    std::vector<Bytes> receive(members_);
    std::vector<Shape> boxes(members_), starts(members_);
    for (std::size_t m = 0; m < members_; ++m) {
      const Coordinates at = member_coordinates(m);
      const Shape their_result = local_shape(*call_.result_type, *call_.grid, at);
      const Shape their_result_start = local_offsets(*call_.result_type, *call_.grid, at);
      const Shape their_operand = local_shape(*call_.operand_type, *call_.grid, at);
      Shape box = operand_shape_;
      Shape start(box.size(), 0);
      box[to] = their_result[to];
      start[to] = their_result_start[to] - operand_start_[to];
      packed[m].resize(size_of(box));
      pack(call_.operand, operand_shape_, start, box, packed[m].data());
      send[m] = {packed[m].data(), packed[m].size()};
      boxes[m] = result_shape_;
      boxes[m][from] = their_operand[from];
      starts[m] = Shape(box.size(), 0);
      starts[m][from] =
          local_offsets(*call_.operand_type, *call_.grid, at)[from] - result_start_[from];
      staged[m].resize(size_of(boxes[m]));
      receive[m] = {staged[m].data(), staged[m].size()};
    }
    group_.exchange(send, receive, call_.what);
    for (std::size_t m = 0; m < members_; ++m)
      unpack(staged[m].data(), boxes[m], starts[m], result_shape_, call_.result);
  }

  const CollectiveCall& call_;
  Group& group_;
  const std::size_t bytes_;
  const std::size_t members_;
  Shape operand_shape_, result_shape_, operand_start_, result_start_;
};

}  // namespace

void run_collective(const CollectiveCall& call, Group& group) { Collective(call, group).run(); }

void run_local_reshard(const CollectiveCall& call) {
  const Coordinates at = call.grid->coordinates(call.rank);
  const Shape from = local_shape(*call.operand_type, *call.grid, at);
  const Shape to = local_shape(*call.result_type, *call.grid, at);
  const std::size_t bytes = byte_size(call.operand_type->dtype);
  if (call.kind == OpKind::KeepOnFirst) {
    const std::size_t size = static_cast<std::size_t>(elements(to)) * bytes;
    const bool keeps = call.grid->group_index(call.rank, call.attrs->axes("over")) == 0;
    if (size == 0) return;
    if (keeps) {
      std::memcpy(call.result, call.operand, size);
    } else {
      std::memset(call.result, 0, size);
    }
    return;
  }
  const auto strides = row_major_strides(from);
  const Shape own = local_offsets(*call.operand_type, *call.grid, at);
  const Shape wanted = local_offsets(*call.result_type, *call.grid, at);
  std::int64_t before = 0;
  for (std::size_t d = 0; d < from.size(); ++d) before += (wanted[d] - own[d]) * strides[d];
  cpu::copy_strided(call.operand + static_cast<std::size_t>(before) * bytes, to, strides,
                    call.result, bytes);
}

}  // namespace tessera
