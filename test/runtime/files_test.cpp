// .npy and safetensors: round trips, and files that lie.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/random.h"
#include "ir/base/safetensors.h"
#include "runtime/npy.h"
#include "runtime/weight_view.h"

namespace tessera {
namespace {

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::temp_directory_path() / str("tessera-files-", ::getpid(), "-", name);
}

Tensor sample() {
  Tensor tensor(DType::F32, {2, 3, 2});
  for (std::int64_t i = 0; i < tensor.size(); ++i)
    tensor.mutable_view<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i) * 0.5f;
  return tensor;
}

TEST(Npy, RoundTrip) {
  const auto path = scratch("a.npy");
  for (const Tensor& tensor :
       {sample(), Tensor(DType::I64, {3}), Tensor(DType::Bool, {}), Tensor(DType::F64, {0, 2})}) {
    write_npy(path, tensor);
    EXPECT_TRUE(read_npy(path).same_as(tensor));
  }
  std::filesystem::remove(path);
}

// Cuts and flipped bytes: a clear refusal or a tensor, never a crash.
template <class Read>
void mutate(const std::filesystem::path& path, Read read) {
  const std::string good = read_text(path);
  int refused = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    std::string bad = good;
    const std::uint64_t bits = random_bits(7, 0, i);
    if (i % 4 == 0) bad.resize(bits % bad.size());
    if (i % 4 != 0)
      bad[(bits >> 8) % std::min<std::size_t>(bad.size(), 200)] = static_cast<char>(bits);
    write_text(path, bad);
    try {
      read(path);
    } catch (const CompileError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100) << "a quarter of the files are cut short";
  std::filesystem::remove(path);
}

TEST(Npy, HostileFiles) {
  const auto path = scratch("b.npy");
  write_npy(path, sample());
  mutate(path, [](const auto& p) { read_npy(p); });
}

TEST(Safetensors, RoundTripWithMetadata) {
  const auto path = scratch("a.safetensors");
  write_safetensors(path, {{"x", sample()}, {"empty", Tensor(DType::F32, {0})}}, {{"k", "v"}});
  const auto index = read_safetensors_index(path);
  EXPECT_EQ(index.metadata.at("k"), "v");
  EXPECT_TRUE(read_safetensors(path).at("x").same_as(sample()));
  std::filesystem::remove(path);
}

TEST(Safetensors, HostileFiles) {
  const auto path = scratch("b.safetensors");
  write_safetensors(path, {{"x", sample()}});
  mutate(path, [](const auto& p) { read_safetensors(p); });
}

TEST(WeightView, PiecesComeFromAndGoBackToTheFileLayout) {
  WeightSource source;
  source.shape = {4, 6};
  source.view = {
      {ViewKind::Slice, {1, 2, 6}}, {ViewKind::Reshape, {4, 2, 2}}, {ViewKind::Permute, {1, 0, 2}}};
  Tensor file(DType::F32, {4, 6});
  for (std::size_t i = 0; i < 24; ++i) file.mutable_view<float>()[i] = static_cast<float>(i);
  const StridedView view = strided_view(source);
  EXPECT_EQ(view.shape, (Shape{2, 4, 2}));
  Tensor whole(DType::F32, view.shape);
  read_piece(file.data(), view, {0, 0, 0}, view.shape, DType::F32, whole.mutable_data());
  EXPECT_EQ(whole.number(0), 2);
  EXPECT_EQ(whole.number(2), 8);  // next row of the file
  EXPECT_EQ(whole.number(8), 4);  // second group of columns
  float piece[2];
  read_piece(file.data(), view, {1, 3, 0}, {1, 1, 2}, DType::F32,
             reinterpret_cast<std::byte*>(piece));
  EXPECT_EQ(piece[0], 22);
  Tensor again(DType::F32, {4, 6});
  write_back(whole, view, again);
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_EQ(again.view<float>()[i], i % 6 < 2 ? 0.0f : static_cast<float>(i));
}

}  // namespace
}  // namespace tessera
