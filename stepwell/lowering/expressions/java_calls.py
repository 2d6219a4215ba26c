"""Functions that Spark's optimiser replaces by a call of a Java method (`Invoke`, `StaticInvoke`), by their class in the analysed plan.

A refusal of such a call names the function as the user wrote it. Only texts use this table. A function that is missing in it is refused
with a less helpful name. The table has the classes of Spark 4.3 that extend RuntimeReplaceable and become an Invoke or StaticInvoke.
"""

from __future__ import annotations

from collections.abc import Iterable

JAVA_CALLS = frozenset({"Invoke", "StaticInvoke"})

_SQL_NAMES = {
    "AesDecrypt": "aes_decrypt", "AesEncrypt": "aes_encrypt", "Base32": "to_base32", "BitmapBitPosition": "bitmap_bit_position",
    "BitmapBucketNumber": "bitmap_bucket_number", "BitmapCount": "bitmap_count", "Decode": "decode", "Encode": "encode",
    "Hmac": "hmac", "IsValidUTF8": "is_valid_utf8", "JaroWinkler": "jaro_winkler_similarity",
    "JsonObjectKeys": "json_object_keys", "LengthOfJsonArray": "json_array_length", "Luhncheck": "luhn_check",
    "MakeTime": "make_time", "MakeValidUTF8": "make_valid_utf8", "ParseUrl": "parse_url",
    "Quote": "quote", "SchemaOfCsv": "schema_of_csv", "SchemaOfJson": "schema_of_json", "SchemaOfVariant": "schema_of_variant",
    "SchemaOfXml": "schema_of_xml", "Sentences": "sentences", "StringDecode": "decode", "StructsToJson": "to_json",
    "TimeTrunc": "time_trunc", "ToTime": "to_time", "TryAesDecrypt": "try_aes_decrypt", "TryParseUrl": "try_parse_url",
    "TryUrlDecode": "try_url_decode", "TryValidateUTF8": "try_validate_utf8", "UnBase32": "from_base32",
    "UrlDecode": "url_decode", "UrlEncode": "url_encode", "ValidateUTF8": "validate_utf8", "XPathBoolean": "xpath_boolean",
    "XPathDouble": "xpath_double", "XPathFloat": "xpath_float", "XPathInt": "xpath_int", "XPathList": "xpath",
    "XPathLong": "xpath_long", "XPathShort": "xpath_short", "XPathString": "xpath_string",
}  # fmt: skip


def functions_written(kinds: Iterable[str]) -> list[str]:
    """The SQL names of such functions among the classes of an analysed plan, sorted."""
    return sorted({_SQL_NAMES[kind] for kind in kinds if kind in _SQL_NAMES})
