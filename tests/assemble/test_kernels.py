"""What a kernel's name says; names in the style of the libraries, as they stand in traces."""

from __future__ import annotations

import pytest

from bottleneck_doctor.assemble.kernels import TENSOR_KINDS, kind_of, precision_of, uses_tensor_cores

# name, kind, precision, on tensor cores
PRODUCTS = [
    ("ampere_sgemm_128x64_nn", "matmul", "float32", False),
    ("volta_sgemm_128x32_nt", "matmul", "float32", False),
    ("void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>(float const*)", "matmul", "float32", False),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)", "matmul", "float32", False),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_ffma_kernel", "matmul", "float32", False),
    ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize32x32x64_execute_kernel", "matmul", "tf32", True),
    ("ampere_tf32_s1688gemm_fp32_128x128_ldg8_f2f_stages_32x1_nn", "matmul", "tf32", True),
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>(P)", "matmul", "tf32", True),
    ("nvjet_sss_tf32_128x256_TNT", "matmul", "tf32", True),
    ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "matmul", "bfloat16", True),
    ("nvjet_tst_192x192_64x4_1x1_h_bz_coopB_TNN", "matmul", "bfloat16", True),
    ("nvjet_sm90_tst_64x32_64x16_1x2_h_bz_splitK_TNT", "matmul", "bfloat16", True),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_segment_k_off", "matmul", "bfloat16", True),
    ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTT", "matmul", "float16", True),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "matmul", "float16", True),
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "matmul", "float16", True),
    ("volta_h884gemm_256x128_ldg8_nn", "matmul", "float16", True),
    ("nvjet_qqtst_128x128_128x6_2x1_v_bz_TNT", "matmul", "float8", True),
    ("Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1", "matmul", "bfloat16", True),
    ("Cijk_Alik_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN", "matmul", "float16", True),
    ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1", "matmul", "float32", False),
    ("triton_tem_fused_addmm_relu_3", "matmul", "", None),
    ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_cudnn", "convolution", "tf32", True),
    ("sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc", "convolution", "float16", True),
    ("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816dgrad_optimized_bf16_128x64_32x6_nhwc>(P)",
     "convolution", "bfloat16", True),
    ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3>(int)", "convolution", "float32", False),
    ("ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "convolution", "float32", False),
    ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8", "convolution", "bfloat16", True),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, cutlass::bfloat16_t>>(P)",
     "attention", "bfloat16", True),
    ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)", "attention", "float16", True),
    ("fmha_cutlassB_f32_aligned_64x64_k64_sm80(Params)", "attention", "float32", None),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3", "attention", "float16", True),
    ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<bfloat16_t>>>(P)",
     "attention", "bfloat16", True),
]  # fmt: skip

OTHERS = [
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>()",
     "elementwise"),
    ("triton_poi_fused_add_native_layer_norm_3", "elementwise"),
    ("void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(TensorIterator&)>()",
     "copy"),
    ("triton_red_fused__log_softmax_5", "reduction"),
    ("triton_per_fused_native_layer_norm_0", "reduction"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps>>(R)",
     "reduction"),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, true>(float*)", "reduction"),
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
     "reduction"),
    ("void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 0>(args)", "reduction"),
    ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>>()",
     "optimizer"),
    ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>()", "copy"),
    ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false>(params)", "copy"),
    ("Memcpy DtoD (Device -> Device)", "copy"),
    ("void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>()", "indexing"),
    ("void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float>()", "indexing"),
    ("void fbgemm_gpu::permute_2D_data_kernel<false, int>(int)", "copy"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "communication"),
    ("my_own_kernel(float*, int)", "other"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "precision", "cores"), PRODUCTS)
def test_products_by_name(name: str, kind: str, precision: str, cores: bool | None) -> None:
    assert kind in TENSOR_KINDS
    assert kind_of(name) == kind
    assert precision_of(name, kind) == precision
    assert uses_tensor_cores(name, kind, precision) is cores


@pytest.mark.parametrize(("name", "kind"), OTHERS)
def test_other_kernels_by_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind
    assert uses_tensor_cores(name, kind, "float32") is False


def test_the_operator_says_what_a_product_is_for() -> None:
    name = "Cijk_Ailk_Bljk_BBS_BH_MT64x256x32_MI16x16x16x1"
    assert kind_of(name, "aten::miopen_convolution") == "convolution"
    assert kind_of(name, "aten::_scaled_dot_product_attention_math") == "attention"
    assert kind_of(name, "aten::mm") == "matmul"


def test_small_operators_of_an_optimizer_are_the_optimizers() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::AddcdivFunctor<float>>(int)"
    assert kind_of(name, "aten::addcdiv_") == "elementwise"
    assert kind_of(name, "aten::addcdiv_", in_optimizer=True) == "optimizer"
    assert kind_of("ampere_sgemm_128x64_nn", "aten::mm", in_optimizer=True) == "matmul"


@pytest.mark.parametrize(
    ("name", "types", "precision"),
    [
        ("ampere_sgemm_128x64_nn", "float", "float32"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128>(P)", "float", "tf32"),
        ("void cutlass::Kernel<cutlass_75_tensorop_s1688gemm_128x128>(P)", "c10::Half", "float16"),
        ("triton_tem_fused_mm_1", "c10::BFloat16", "bfloat16"),
        ("nvjet_qqtst_128x128_128x6_2x1_v_bz_TNT", "c10::BFloat16", "float8"),
    ],
)
def test_the_arguments_say_what_a_name_leaves_out(name: str, types: str, precision: str) -> None:
    assert precision_of(name, "matmul", types) == precision
