"""Mistakes in variants: how JSON becomes one, what is taken of it, and how it is written."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

OF_EXPRESSIONS = "tests/stepwell/expressions/test_variants.py"
OF_FORMATS = "tests/io_kafka/formats/test_variants.py"
_CASTS = f"{OF_EXPRESSIONS}::test_every_value_is_cast_to_every_type_as_in_spark"
_TEXTS = f"{OF_EXPRESSIONS}::test_strange_texts_are_read_or_refused_as_in_spark"

VARIANTS = (
    Breakage(
        "the-last-of-two-members-counts",
        "parse_json takes an object with two members of one name, which Spark refuses.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/variant_texts.py",
                "    if len(members) < len(pairs):\n",
                "    if not members and pairs:\n",
            ),
        ),
        (_TEXTS,),
    ),
    Breakage(
        "halves-of-characters-are-read",
        "parse_json takes half of a surrogate pair, which no text of Arrow's can hold.",
        "the batch answer",
        (Edit("io_kafka/formats/variant_texts.py", "or (not text.isascii() and _SURROGATE.search(text))", ""),),
        (_TEXTS,),
        tells="surrogates not allowed",
    ),
    Breakage(
        "every-integer-is-a-bigint",
        "A number beyond 64 bits keeps no more than a double's digits.",
        "the batch answer",
        (Edit("base/text/variants.py", "len(digits) > DECIMAL_DIGITS_MAX or", "len(digits) > LONG_DIGITS_MAX or"),),
        (f"{_CASTS}[string]",),
    ),
    Breakage(
        "a-null-of-json-is-no-variant",
        "A member that is null gives NULL in a column of VARIANT, as one that is missing.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/exact_json.py",
                "            return {FIELD: variant_of_node(node)}\n",
                "            return {} if node is None else {FIELD: variant_of_node(node)}\n",
            ),
        ),
        (f"{OF_FORMATS}::test_a_member_that_is_missing_is_null_and_a_null_is_a_variant",),
    ),
    Breakage(
        "words-for-numbers-are-no-json",
        "A DOUBLE that is not finite is written without quotes, so that no consumer reads the message.",
        "the batch answer",
        (
            Edit(
                "base/text/variants.py", "        return f'{before}\"{number}\"'\n", "        return before + number\n"
            ),
        ),
        ("tests/io_kafka/formats/test_encode.py::test_each_type_is_written_as_spark_writes_it[variant]",),
    ),
    Breakage(
        "decimals-are-milliseconds",
        "A DECIMAL of a variant that is cast to TIMESTAMP counts milliseconds instead of seconds.",
        "the batch answer",
        (Edit("engine/expressions/functions/variants.py", "seconds.scaleb(6, _EXACT)", "seconds.scaleb(3, _EXACT)"),),
        (f"{_CASTS}[timestamp]",),
    ),
    Breakage(
        "an-index-of-any-size",
        "A path takes an index beyond 32 bits, which Spark refuses.",
        "what is refused",
        (Edit("base/text/variants.py", " or (step[4] is not None and int(step[4]) > INDEX_MAX)", ""),),
        (f"{OF_EXPRESSIONS}::test_paths_are_sparks",),
    ),
    Breakage(
        "variants-are-compared-by-their-texts",
        "count(DISTINCT v) counts other values than Spark, which compares the bytes of variants.",
        "what is refused",
        (
            Edit(
                "stepwell/lowering/keys.py",
                "    if has_variants(type_):\n",
                "    if has_variants(type_) and pa.types.is_map(type_):\n",
            ),
        ),
        ("tests/stepwell/lowering/test_refusals.py::test_a_refusal_names_the_construct_the_view_and_its_line",),
    ),
    Breakage(
        "constants-lose-their-signs",
        "A DECIMAL in a constant variant is never below zero.",
        "the batch answer",
        (
            Edit(
                "stepwell/catalyst/variants.py",
                "Decimal((int(unscaled < 0), ",
                "Decimal((int(unscaled == 0), ",
            ),
        ),
        (f"{OF_EXPRESSIONS}::test_a_constant_has_the_kinds_of_its_numbers",),
    ),
    Breakage(
        "avro-has-variants",
        "A VARIANT in a table of Avro is taken for a struct with a field of a reserved name.",
        "what is refused",
        (
            Edit(
                "stepwell/project/message_formats.py",
                '        if name != "json" and "variant" in',
                '        if name == "csv" and "variant" in',
            ),
        ),
        ("tests/stepwell/test_message_formats.py::test_a_variant_is_in_json_alone",),
    ),
    Breakage(
        "beyond-an-array-is-the-next-one",
        "An index beyond the end of an array gives an element of the array of the row after it.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/variant_parts.py",
                "mask=(places >= offsets[1:]) | nulls_of(lists)",
                "mask=(places >= offsets[-1]) | nulls_of(lists)",
            ),
        ),
        (f"{OF_EXPRESSIONS}::test_usual_parts_go_the_fast_way",),
    ),
    Breakage(
        "members-by-their-numbers",
        "variant_explode numbers the members of an object from one.",
        "the batch answer",
        (
            Edit(
                "engine/expressions/functions/variants.py",
                "for position, (name, each) in enumerate(pairs)]",
                "for position, (name, each) in enumerate(pairs, start=int(isinstance(value, dict)))]",
            ),
        ),
        (
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[variants: members as rows]",
        ),
    ),
)
