"""ONNX's tests of operators that mgn does not pass, by name, each with the reason.

In: nothing. Out: `FAILURES`, the names by reason. `python -m tests.onnx_models.node_tests` says
where it is not true.
"""

_NAMES = {
    "strings are no values of mgn, nor are operators of text": """
        ai_onnx_ml_label_encoder_string_int ai_onnx_ml_label_encoder_string_int_no_default
        ai_onnx_ml_label_encoder_tensor_mapping
        ai_onnx_ml_label_encoder_tensor_value_only_mapping equal_string equal_string_broadcast
        regex_full_match_basic regex_full_match_email_domain regex_full_match_empty
        string_concat string_concat_broadcasting string_concat_empty_string string_concat_utf8
        string_concat_zero_dimensional string_split_basic string_split_consecutive_delimiters
        string_split_empty_string_delimiter string_split_empty_tensor string_split_maxsplit
        string_split_no_delimiter strnormalizer_export_monday_casesensintive_lower
        strnormalizer_export_monday_casesensintive_nochangecase
        strnormalizer_export_monday_casesensintive_upper
        strnormalizer_export_monday_empty_output
        strnormalizer_export_monday_insensintive_upper_twodim
        strnormalizer_nostopwords_nochangecase tfidfvectorizer_tf_batch_onlybigrams_skip0
        tfidfvectorizer_tf_batch_onlybigrams_skip5 tfidfvectorizer_tf_batch_uniandbigrams_skip5
        tfidfvectorizer_tf_only_bigrams_skip0 tfidfvectorizer_tf_onlybigrams_levelempty
        tfidfvectorizer_tf_onlybigrams_skip5 tfidfvectorizer_tf_uniandbigrams_skip5
    """,
    "u64 is no element type of mgn": """
        add_uint64 bitshift_left_uint64 bitshift_right_uint64 bitwise_and_ui64_bcast_3v1d
        bitwise_or_ui64_bcast_3v1d bitwise_xor_ui64_bcast_3v1d div_uint64 equal_uint64
        greater_equal_uint64 greater_equal_uint64_expanded greater_uint64 less_equal_uint64
        less_equal_uint64_expanded less_uint64 max_uint64 min_uint64 mod_uint64 mul_uint64
        pow_types_float32_uint64 sub_uint64 top_k_uint64
    """,
    "the language has no operation that takes bits of one type for those of another": """
        bitcast_2d_float32_to_int32 bitcast_bool_to_uint8 bitcast_float32_to_int32
        bitcast_float64_to_int64 bitcast_int32_to_float32 bitcast_int64_to_float64
        bitcast_int8_to_uint8 bitcast_scalar_float32_to_int32 bitcast_uint16_to_int16
        bitcast_uint32_to_int32
    """,
    "the shape of the result depends on values": """
        nonmaxsuppression_center_point_box_format nonmaxsuppression_flipped_coordinates
        nonmaxsuppression_identical_boxes nonmaxsuppression_iou_threshold_boundary
        nonmaxsuppression_limit_output_size nonmaxsuppression_single_box
        nonmaxsuppression_suppress_by_IOU nonmaxsuppression_suppress_by_IOU_and_scores
        nonmaxsuppression_two_batches nonmaxsuppression_two_classes
    """,
    "the operator is not made yet": """
        basic_deform_conv_with_padding basic_deform_conv_without_padding
        deform_conv_with_mask_bias deform_conv_with_multiple_offset_groups
        roialign_aligned_false roialign_aligned_true roialign_mode_max
    """,
    "files of images are not decoded": """
        image_decoder_decode_bmp_rgb image_decoder_decode_jpeg2k_rgb
        image_decoder_decode_jpeg_bgr image_decoder_decode_jpeg_grayscale
        image_decoder_decode_jpeg_rgb image_decoder_decode_png_rgb image_decoder_decode_pnm_rgb
        image_decoder_decode_tiff_rgb image_decoder_decode_webp_rgb
    """,
    "steps of training are not operators of a graph here": """
        adagrad adagrad_multiple adam adam_multiple momentum momentum_multiple nesterov_momentum
    """,
    "the numbers are random, and NumPy's are wanted": """
        bernoulli bernoulli_double bernoulli_double_expanded bernoulli_expanded bernoulli_seed
        bernoulli_seed_expanded
    """,
    "training draws the mask of NumPy's random numbers": """
        training_dropout training_dropout_default training_dropout_default_mask
        training_dropout_mask
    """,
    "two roundings of f16 apart, and the tolerance is one": """
        attention_4d_causal_fp16 attention_4d_causal_fp16_expanded
    """,
    "what is wanted is the rounding error of another algorithm, where the value is 0": """
        dft_inverse dft_inverse_opset19
    """,
}

FAILURES = {
    reason: tuple(f"test_{name}" for name in names.split()) for reason, names in _NAMES.items()
}
"""The names of tests by the reason why they fail."""

LISTED = {name for names in FAILURES.values() for name in names}
"""All of them."""
