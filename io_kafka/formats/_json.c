/* Reads JSON messages of the usual form into the buffers of Arrow columns. native_json.py is the only caller, and parse.py reads every other message.
 *
 * A message is usual if it is one object in strict JSON and UTF-8, in which no declared column occurs twice and every declared column has a value
 * of its own kind. Whatever is doubtful is declined: the caller then reads that message as if this extension did not exist. So a message that
 * is accepted here must mean the same to Spark's reader, and nothing else has to be right.
 *
 * A column is the tuple (name, kind, whether a value is required, detail). The kinds:
 *
 *     b, h, i, q   integers of 1, 2, 4 and 8 bytes          D      dates as days since 1970
 *     f, d         floats of 4 and 8 bytes                  T, Z   timestamps as microseconds since 1970, without a zone and in UTC
 *     ?            booleans                                 p      decimals of 16 bytes; detail: (precision, scale)
 *     s, B         texts, and bytes in base64               {      objects; detail: their columns
 *     [            lists; detail: the column of elements    m      objects with any names; detail: the columns of names and of values
 *     x            values that are always declined, unless they are null
 *
 * Values are appended. A message that is declined is taken back by cutting all columns to the length that they had before it. While messages are
 * read, nothing of Python is touched, so other threads run meanwhile.
 */
#define _GNU_SOURCE /* for strtod_l */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

enum {
    MESSAGE_BYTES_MAX = 1 << 20,
    NAME_LENGTH_MAX = 1000, /* Jackson's limit is 50,000 */
    DEPTH_MAX = 64,         /* of values that are skipped; Jackson's limit is 1000 */
    NUMBER_LENGTH_MAX = 64, /* longer numbers are rare, and Jackson has a limit for them */
    INTEGER_DIGITS_MAX = 19, /* of 64 bits; more are counted, and not kept */
    DECIMAL_DIGITS_MAX = 18,
    EXACT_DIGITS_MAX = 15, /* an integer of so many digits is a double without rounding */
    EXACT_POWER_MAX = 22,  /* and so is this power of ten */
    COLUMN_DEPTH_MAX = 32, /* of declared columns within columns */
    MAP_ENTRIES_MAX = 64,  /* each name is compared with those before it */
};

/* What became of a value or a message. Below 0 nothing more can be read. */
typedef enum { TOO_LONG = -2, NO_MEMORY = -1, DECLINED = 0, TAKEN = 1 } Outcome;

typedef struct {
    uint8_t *bytes;
    Py_ssize_t used, capacity;
} Buffer;

typedef struct Column Column;

typedef struct {
    Column *columns;
    Py_ssize_t count, next; /* where the search for the next field begins */
} Members;

struct Column {
    const char *name;
    Py_ssize_t name_length;
    char kind;
    int is_required;
    uint64_t object;            /* the number of the last object that had it; 0 before the first */
    Py_ssize_t length;          /* of its values, with nulls */
    Buffer validity, data, ends; /* `ends` has one more entry than there are values */
    int precision, scale;
    Members members; /* columns within it */
};

typedef struct {
    const uint8_t *at, *end;
} Text;

typedef struct {
    const uint8_t *first;
    Py_ssize_t length;
    int is_negative, is_integral, has_exponent, digits, power;
    uint64_t digits_value;
} Number;

static Py_ssize_t width_of(char kind)
{
    switch (kind) {
    case 'b':
        return 1;
    case 'h':
        return 2;
    case 'i':
    case 'f':
    case 'D':
        return 4;
    case 'q':
    case 'd':
    case 'T':
    case 'Z':
        return 8;
    case 'p':
    case 'P':
        return 16;
    default:
        return 0;
    }
}

static void skip_space(Text *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\n' || *text->at == '\r' || *text->at == '\t'))
        text->at++;
}

static int take(Text *text, char expected)
{
    if (text->at == text->end || *text->at != (uint8_t)expected)
        return 0;
    text->at++;
    return 1;
}

static int take_word(Text *text, const char *word)
{
    Py_ssize_t length = (Py_ssize_t)strlen(word);
    if (text->end - text->at < length || memcmp(text->at, word, (size_t)length) != 0)
        return 0;
    text->at += length;
    return 1;
}

/* The bytes of one character beyond ASCII; 0 if this is not UTF-8. */
static int utf8_length(const uint8_t *at, const uint8_t *end)
{
    uint8_t first = at[0];
    int length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || end - at < length)
        return 0;
    uint8_t low = 0x80, high = 0xBF;
    if (first == 0xE0)
        low = 0xA0;
    else if (first == 0xED)
        high = 0x9F;
    else if (first == 0xF0)
        low = 0x90;
    else if (first == 0xF4)
        high = 0x8F;
    if (at[1] < low || at[1] > high)
        return 0;
    for (int i = 2; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

/* Whether one of eight bytes ends a run of plain characters: a quote, a backslash, a control character, or one beyond ASCII. */
static int has_special(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t quote = word ^ (ones * '"'), backslash = word ^ (ones * '\\');
    uint64_t found = word | (word - ones * 0x20);
    found |= (quote - ones) & ~quote;
    found |= (backslash - ones) & ~backslash;
    return (found & tops) != 0;
}

static int hex_of(const uint8_t *at, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t byte = at[i], low = byte | 0x20;
        if (byte >= '0' && byte <= '9')
            *unit = *unit * 16 + (byte - '0');
        else if (low >= 'a' && low <= 'f')
            *unit = *unit * 16 + (low - 'a' + 10);
        else
            return 0;
    }
    return 1;
}

/* The code point that an escape `\uXXXX` names, or two of them that are one character. Returns its length; 0 if it names none. */
static int take_code_point(const uint8_t *at, const uint8_t *end, uint32_t *point)
{
    uint32_t low;
    if (end - at < 6 || !hex_of(at + 2, point) || (*point >= 0xDC00 && *point <= 0xDFFF))
        return 0;
    if (*point < 0xD800 || *point > 0xDBFF)
        return 6;
    if (end - at < 12 || at[6] != '\\' || at[7] != 'u' || !hex_of(at + 8, &low) || low < 0xDC00 || low > 0xDFFF)
        return 0;
    *point = 0x10000 + ((*point - 0xD800) << 10) + (low - 0xDC00);
    return 12;
}

/* Moves behind the quote that ends a string, whose first quote was taken. Returns 0 unless all of it is valid and usual. */
static int skip_string(Text *text, int *has_escape)
{
    const uint8_t *at = text->at, *end = text->end;
    for (;;) {
        uint64_t word;
        while (end - at >= 8 && (memcpy(&word, at, 8), !has_special(word)))
            at += 8;
        if (at == end)
            return 0;
        uint8_t byte = *at;
        if (byte == '"')
            break;
        if (byte == '\\') {
            uint32_t point;
            int length = 2;
            if (end - at < 2 || at[1] == 0)
                return 0;
            if (at[1] == 'u')
                length = take_code_point(at, end, &point);
            else if (strchr("\"\\/bfnrt", at[1]) == NULL)
                return 0;
            if (length == 0)
                return 0;
            *has_escape = 1;
            at += length;
        } else if (byte >= 0x80) {
            int length = utf8_length(at, end);
            if (length == 0)
                return 0;
            at += length;
        } else if (byte < 0x20) {
            return 0;
        } else {
            at++;
        }
    }
    text->at = at + 1;
    return 1;
}

/* A name and the colon behind it. */
static int take_name(Text *text, const uint8_t **name, Py_ssize_t *length, int *has_escape)
{
    *name = text->at + 1;
    if (!take(text, '"') || !skip_string(text, has_escape))
        return 0;
    *length = text->at - 1 - *name;
    skip_space(text);
    return take(text, ':') && *length <= NAME_LENGTH_MAX;
}

static int take_digits(Text *text, Number *number)
{
    const uint8_t *first = text->at;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
        if (number->digits > 0 || *text->at != '0')
            number->digits++;
        if (number->digits <= INTEGER_DIGITS_MAX)
            number->digits_value = number->digits_value * 10 + (*text->at - '0');
    }
    return text->at > first;
}

/* A number in JSON's grammar. */
static int take_number(Text *text, Number *number)
{
    memset(number, 0, sizeof *number);
    number->first = text->at;
    number->is_integral = 1;
    number->is_negative = take(text, '-');
    int begins_with_zero = text->at < text->end && *text->at == '0';
    const uint8_t *digits = text->at;
    if (!take_digits(text, number) || (begins_with_zero && text->at - digits > 1))
        return 0;
    if (take(text, '.')) {
        const uint8_t *fraction = text->at;
        number->is_integral = 0;
        if (!take_digits(text, number))
            return 0;
        number->power = -(int)(text->at - fraction);
    }
    if (text->at < text->end && (*text->at == 'e' || *text->at == 'E')) {
        text->at++;
        number->is_integral = 0;
        number->has_exponent = 1;
        int is_negative = take(text, '-'), exponent = 0;
        if (!is_negative)
            take(text, '+');
        const uint8_t *first = text->at;
        for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
            if (exponent < 100000)
                exponent = exponent * 10 + (*text->at - '0');
        if (text->at == first)
            return 0;
        number->power += is_negative ? -exponent : exponent;
    }
    number->length = text->at - number->first;
    return number->length <= NUMBER_LENGTH_MAX;
}

static locale_t plain_locale; /* in which a point separates the fraction, whatever the user's language is */

/* The text of a number, with an end. */
static const char *copied(const Number *number, char copy[NUMBER_LENGTH_MAX + 1])
{
    memcpy(copy, number->first, (size_t)number->length);
    copy[number->length] = 0;
    return copy;
}

/* Rounded correctly. The integer -0 is 0, and the double -0.0 is not. */
static double double_of(const Number *number)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    char copy[NUMBER_LENGTH_MAX + 1];
    double value;
    if (number->digits <= EXACT_DIGITS_MAX && number->power >= -EXACT_POWER_MAX && number->power <= EXACT_POWER_MAX) {
        value = (double)number->digits_value;
        value = number->power < 0 ? value / powers[-number->power] : value * powers[number->power];
        return number->is_negative && !(number->is_integral && value == 0) ? -value : value;
    }
    return strtod_l(copied(number, copy), NULL, plain_locale);
}

/* The same in 32 bits, rounded once. */
static float float_of(const Number *number)
{
    char copy[NUMBER_LENGTH_MAX + 1];
    float value = strtof_l(copied(number, copy), NULL, plain_locale);
    return number->is_integral && value == 0 ? 0 : value;
}

/* The number times 10^scale, if that is an integer of at most `precision` digits. A number with an exponent is declined: Java's decimals treat
 * some of them as errors. */
static int decimal_of(const Number *number, int precision, int scale, __int128 *unscaled)
{
    int zeros = number->power + scale;
    if (number->has_exponent || number->digits > DECIMAL_DIGITS_MAX || zeros < 0 || number->digits + zeros > precision)
        return 0;
    *unscaled = (__int128)number->digits_value;
    for (; zeros > 0; zeros--)
        *unscaled *= 10;
    if (number->is_negative)
        *unscaled = -*unscaled;
    return 1;
}

static int digits_of(const uint8_t *at, int count, int *number)
{
    *number = 0;
    for (int i = 0; i < count; i++) {
        if (at[i] < '0' || at[i] > '9')
            return 0;
        *number = *number * 10 + (at[i] - '0');
    }
    return 1;
}

/* The days since 1970 of YYYY-MM-DD, in the Gregorian calendar. The years begin in March, so that the leap day is their last. */
static int days_of(const uint8_t *at, int64_t *days)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (!digits_of(at, 4, &year) || !digits_of(at + 5, 2, &month) || !digits_of(at + 8, 2, &day) || at[4] != '-' ||
        at[7] != '-' || year < 1 || month < 1 || month > 12)
        return 0;
    int is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day < 1 || day > lengths[month - 1] + (month == 2 && is_leap))
        return 0;
    int64_t shifted = month > 2 ? year : year - 1;
    int64_t in_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    *days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + in_year - 719468;
    return 1;
}

/* The length of the zone at the end of a time: Z, or the distance from UTC as +HH:MM, which is at most 18 hours. 0 if there is none. */
static Py_ssize_t zone_of(const uint8_t *at, Py_ssize_t length, int64_t *us)
{
    int hours, minutes;
    *us = 0;
    if (at[length - 1] == 'Z')
        return 1;
    const uint8_t *zone = at + length - 6;
    if (length < 25 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':' || !digits_of(zone + 1, 2, &hours) ||
        !digits_of(zone + 4, 2, &minutes) || minutes > 59 || hours * 60 + minutes > 18 * 60)
        return 0;
    *us = (hours * 60 + minutes) * (int64_t)60000000;
    if (zone[0] == '-')
        *us = -*us;
    return 6;
}

/* The microseconds since 1970 of YYYY-MM-DD, also with T or a blank and HH:MM:SS, up to nine digits of a fraction, and a zone if `with_zone`. */
static int microseconds_of(const uint8_t *at, Py_ssize_t length, int with_zone, int64_t *us)
{
    int64_t days, offset = 0;
    int hour, minute, second, fraction = 0;
    if (length < 10 || !days_of(at, &days))
        return 0;
    *us = days * 86400000000;
    if (length == 10)
        return 1;
    if (length < 19 || (at[10] != 'T' && at[10] != ' ') || at[13] != ':' || at[16] != ':' ||
        !digits_of(at + 11, 2, &hour) || !digits_of(at + 14, 2, &minute) || !digits_of(at + 17, 2, &second) ||
        hour > 23 || minute > 59 || second > 59)
        return 0;
    Py_ssize_t end = with_zone ? length - zone_of(at, length, &offset) : length;
    if (end > 19) {
        int digits = (int)(end - 20), rest;
        if (at[19] != '.' || digits < 1 || digits > 9 || !digits_of(at + 20, digits < 6 ? digits : 6, &fraction))
            return 0;
        if (digits > 6 && !digits_of(at + 26, digits - 6, &rest))
            return 0;
        for (; digits < 6; digits++)
            fraction *= 10;
    } else if (end < 19) {
        return 0;
    }
    *us += ((hour * 60 + minute) * 60 + second) * (int64_t)1000000 + fraction - offset;
    return 1;
}

/* Any value of a field that no column declares. */
static int skip_value(Text *text, int depth)
{
    int has_escape = 0;
    const uint8_t *name;
    Py_ssize_t length;
    Number number;
    if (text->at == text->end || depth == DEPTH_MAX)
        return 0;
    switch (*text->at) {
    case '"':
        text->at++;
        return skip_string(text, &has_escape);
    case 't':
        return take_word(text, "true");
    case 'f':
        return take_word(text, "false");
    case 'n':
        return take_word(text, "null");
    case '{':
    case '[': {
        int is_object = *text->at++ == '{';
        char close = is_object ? '}' : ']';
        skip_space(text);
        if (take(text, close))
            return 1;
        do {
            skip_space(text);
            if (is_object) {
                if (!take_name(text, &name, &length, &has_escape))
                    return 0;
                skip_space(text);
            }
            if (!skip_value(text, depth + 1))
                return 0;
            skip_space(text);
        } while (take(text, ','));
        return take(text, close);
    }
    default:
        return take_number(text, &number);
    }
}

/* Makes room for `more` bytes. */
static Outcome reserve(Buffer *buffer, Py_ssize_t more)
{
    if (buffer->capacity - buffer->used >= more)
        return TAKEN;
    Py_ssize_t capacity = 2 * buffer->capacity > buffer->used + more ? 2 * buffer->capacity : buffer->used + more;
    uint8_t *bytes = realloc(buffer->bytes, (size_t)capacity);
    if (bytes == NULL)
        return NO_MEMORY;
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return TAKEN;
}

static Outcome append_bytes(Buffer *buffer, const void *bytes, Py_ssize_t length)
{
    if (length == 0)
        return TAKEN;
    if (reserve(buffer, length) < 0)
        return NO_MEMORY;
    memcpy(buffer->bytes + buffer->used, bytes, (size_t)length);
    buffer->used += length;
    return TAKEN;
}

static Outcome append_bit(Buffer *buffer, Py_ssize_t index, int bit)
{
    if (index % 8 == 0) {
        if (reserve(buffer, 1) < 0)
            return NO_MEMORY;
        buffer->bytes[buffer->used++] = 0;
    }
    buffer->bytes[index / 8] |= (uint8_t)(bit << (index % 8));
    return TAKEN;
}

/* Appends where the last value ends: in the bytes of texts, or in the column of a list's elements. */
static Outcome append_end(Buffer *ends, Py_ssize_t end)
{
    int32_t end_of = (int32_t)end;
    return end > INT32_MAX ? TOO_LONG : append_bytes(ends, &end_of, sizeof end_of);
}

static Py_ssize_t end_at(const Column *column, Py_ssize_t index)
{
    int32_t end;
    memcpy(&end, column->ends.bytes + index * (Py_ssize_t)sizeof end, sizeof end);
    return end;
}

static int has_ends(char kind)
{
    return kind == 's' || kind == 'B' || kind == '[' || kind == 'm';
}

/* Ends a value whose data are there. */
static Outcome end_value(Column *column, int is_valid)
{
    Outcome outcome = append_bit(&column->validity, column->length, is_valid);
    if (outcome == TAKEN && has_ends(column->kind)) {
        int is_text = column->kind == 's' || column->kind == 'B';
        outcome = append_end(&column->ends, is_text ? column->data.used : column->members.columns[0].length);
    }
    column->length++;
    return outcome;
}

static Outcome append_null(Column *column)
{
    static const uint8_t nothing[16] = {0};
    Outcome outcome = append_bytes(&column->data, nothing, width_of(column->kind));
    if (outcome == TAKEN && column->kind == '?')
        outcome = append_bit(&column->data, column->length, 0);
    if (column->kind == '{')
        for (Py_ssize_t i = 0; outcome == TAKEN && i < column->members.count; i++)
            outcome = append_null(&column->members.columns[i]);
    return outcome == TAKEN ? end_value(column, 0) : outcome;
}

static void cut_bits(Buffer *buffer, Py_ssize_t length)
{
    if (buffer->used > (length + 7) / 8)
        buffer->used = (length + 7) / 8;
    if (length % 8 != 0 && buffer->used > length / 8)
        buffer->bytes[length / 8] &= (uint8_t)((1u << (length % 8)) - 1);
}

/* Takes back what came behind the first `length` values, also where a value within them was begun. */
static void cut(Column *column, Py_ssize_t length)
{
    Py_ssize_t width = width_of(column->kind);
    cut_bits(&column->validity, length);
    if (has_ends(column->kind)) {
        Py_ssize_t end = end_at(column, length);
        column->ends.used = (length + 1) * (Py_ssize_t)sizeof(int32_t);
        if (column->kind == 's' || column->kind == 'B')
            column->data.used = end;
        for (Py_ssize_t i = 0; i < column->members.count; i++)
            cut(&column->members.columns[i], end);
    } else if (column->kind == '{') {
        for (Py_ssize_t i = 0; i < column->members.count; i++)
            cut(&column->members.columns[i], length);
    } else if (column->kind == '?') {
        cut_bits(&column->data, length);
    } else if (column->data.used > length * width) {
        column->data.used = length * width;
    }
    if (column->length > length)
        column->length = length;
}

static uint8_t *put_point(uint8_t *to, uint32_t point)
{
    if (point < 0x80) {
        *to++ = (uint8_t)point;
    } else if (point < 0x800) {
        *to++ = (uint8_t)(0xC0 | point >> 6);
        *to++ = (uint8_t)(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
        *to++ = (uint8_t)(0xE0 | point >> 12);
        *to++ = (uint8_t)(0x80 | (point >> 6 & 0x3F));
        *to++ = (uint8_t)(0x80 | (point & 0x3F));
    } else {
        *to++ = (uint8_t)(0xF0 | point >> 18);
        *to++ = (uint8_t)(0x80 | (point >> 12 & 0x3F));
        *to++ = (uint8_t)(0x80 | (point >> 6 & 0x3F));
        *to++ = (uint8_t)(0x80 | (point & 0x3F));
    }
    return to;
}

static uint8_t escaped(uint8_t byte)
{
    switch (byte) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return byte;
    }
}

/* Appends a string without its quotes. With its escapes it is longer than without. */
static Outcome append_text(Buffer *data, const uint8_t *at, const uint8_t *end, int has_escape)
{
    if (!has_escape)
        return append_bytes(data, at, end - at);
    if (reserve(data, end - at) < 0)
        return NO_MEMORY;
    uint8_t *to = data->bytes + data->used;
    while (at < end) {
        uint32_t point;
        if (*at != '\\') {
            *to++ = *at++;
        } else if (at[1] == 'u') {
            at += take_code_point(at, end, &point);
            to = put_point(to, point);
        } else {
            *to++ = escaped(at[1]);
            at += 2;
        }
    }
    data->used = to - data->bytes;
    return TAKEN;
}

static int sixbits_of(uint8_t byte)
{
    if (byte >= 'A' && byte <= 'Z')
        return byte - 'A';
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a' + 26;
    if (byte >= '0' && byte <= '9')
        return byte - '0' + 52;
    return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

/* Appends the bytes of a text in base64, with its padding and without any blank. */
static Outcome append_base64(Buffer *data, const uint8_t *at, const uint8_t *end)
{
    if ((end - at) % 4 != 0)
        return DECLINED;
    if (reserve(data, (end - at) / 4 * 3) < 0)
        return NO_MEMORY;
    for (; at < end; at += 4) {
        int pads = at + 4 < end || at[3] != '=' ? 0 : at[2] != '=' ? 1 : 2;
        uint32_t group = 0;
        for (int i = 0; i < 4; i++) {
            int bits = i < 4 - pads ? sixbits_of(at[i]) : 0;
            if (bits < 0)
                return DECLINED;
            group = group << 6 | (uint32_t)bits;
        }
        for (int i = 0; i < 3 - pads; i++)
            data->bytes[data->used++] = (uint8_t)(group >> (16 - 8 * i));
    }
    return TAKEN;
}

typedef struct {
    Text text;
    uint64_t objects; /* that were begun */
} Reader;

static Outcome take_members(Members *members, Reader *reader);
static Outcome take_value(Column *column, Reader *reader);

static Outcome take_integer(Column *column, Text *text)
{
    Number number;
    if (!take_number(text, &number) || !number.is_integral || number.digits > INTEGER_DIGITS_MAX)
        return DECLINED;
    Py_ssize_t width = width_of(column->kind);
    uint64_t limit = ((uint64_t)1 << (8 * width - 1)) - 1 + (uint64_t)number.is_negative;
    if (number.digits_value > limit)
        return DECLINED;
    /* Two's complement: the lowest bytes are those of the narrower integer. */
    uint64_t value = number.is_negative ? 0 - number.digits_value : number.digits_value;
    int8_t as8 = (int8_t)value;
    int16_t as16 = (int16_t)value;
    int32_t as32 = (int32_t)value;
    const void *bytes = width == 1 ? (const void *)&as8 : width == 2 ? (const void *)&as16 : width == 4 ? (const void *)&as32 : &value;
    return append_bytes(&column->data, bytes, width);
}

static Outcome take_float(Column *column, Text *text)
{
    Number number;
    if (!take_number(text, &number))
        return DECLINED;
    if (column->kind == 'f') {
        float narrow = float_of(&number);
        return append_bytes(&column->data, &narrow, sizeof narrow);
    }
    double value = double_of(&number);
    return append_bytes(&column->data, &value, sizeof value);
}

/* A number, of kind 'p' also in quotes. */
static Outcome take_decimal(Column *column, Text *text)
{
    Number number;
    __int128 unscaled;
    int is_quoted = column->kind == 'p' && take(text, '"');
    if (!take_number(text, &number) || !decimal_of(&number, column->precision, column->scale, &unscaled) ||
        (is_quoted && !take(text, '"')))
        return DECLINED;
    return append_bytes(&column->data, &unscaled, sizeof unscaled);
}

static Outcome take_time(Column *column, Text *text)
{
    int has_escape = 0;
    int64_t value;
    const uint8_t *first = text->at + 1;
    if (!take(text, '"') || !skip_string(text, &has_escape) || has_escape)
        return DECLINED;
    Py_ssize_t length = text->at - 1 - first;
    if (column->kind != 'D')
        return microseconds_of(first, length, column->kind == 'Z', &value)
                   ? append_bytes(&column->data, &value, sizeof value)
                   : DECLINED;
    if (length < 10 || (length > 10 && first[10] != 'T' && first[10] != ' ') || !days_of(first, &value))
        return DECLINED;
    int32_t days = (int32_t)value;
    return append_bytes(&column->data, &days, sizeof days);
}

static Outcome take_boolean(Column *column, Text *text)
{
    int is_true = take_word(text, "true");
    if (!is_true && !take_word(text, "false"))
        return DECLINED;
    return append_bit(&column->data, column->length, is_true);
}

static Outcome take_string(Column *column, Text *text)
{
    int has_escape = 0;
    const uint8_t *first = text->at + 1;
    if (!take(text, '"') || !skip_string(text, &has_escape))
        return DECLINED;
    if (column->kind == 's')
        return append_text(&column->data, first, text->at - 1, has_escape);
    return has_escape ? DECLINED : append_base64(&column->data, first, text->at - 1);
}

static Outcome take_list(Column *column, Reader *reader)
{
    Text *text = &reader->text;
    if (!take(text, '['))
        return DECLINED;
    skip_space(text);
    if (take(text, ']'))
        return TAKEN;
    do {
        skip_space(text);
        Outcome outcome = take_value(&column->members.columns[0], reader);
        if (outcome != TAKEN)
            return outcome;
        skip_space(text);
    } while (take(text, ','));
    return take(text, ']') ? TAKEN : DECLINED;
}

/* Whether the last of the names is one of those from number `first` on. */
static int is_repeated(const Column *names, Py_ssize_t first)
{
    Py_ssize_t last = names->length - 1, begin = end_at(names, last), length = names->data.used - begin;
    for (Py_ssize_t i = first; i < last; i++)
        if (end_at(names, i + 1) - end_at(names, i) == length &&
            (length == 0 || memcmp(names->data.bytes + end_at(names, i), names->data.bytes + begin, (size_t)length) == 0))
            return 1;
    return 0;
}

/* An object with any names, in which none is repeated. */
static Outcome take_map(Column *column, Reader *reader)
{
    Text *text = &reader->text;
    Column *names = &column->members.columns[0], *values = &column->members.columns[1];
    Py_ssize_t first = names->length;
    if (!take(text, '{'))
        return DECLINED;
    skip_space(text);
    if (take(text, '}'))
        return TAKEN;
    do {
        int has_escape = 0;
        const uint8_t *name;
        Py_ssize_t length;
        skip_space(text);
        if (!take_name(text, &name, &length, &has_escape))
            return DECLINED;
        Outcome outcome = append_text(&names->data, name, name + length, has_escape);
        if (outcome == TAKEN)
            outcome = end_value(names, 1);
        if (outcome == TAKEN && (names->length - first > MAP_ENTRIES_MAX || is_repeated(names, first)))
            outcome = DECLINED;
        skip_space(text);
        if (outcome == TAKEN)
            outcome = take_value(values, reader);
        if (outcome != TAKEN)
            return outcome;
        skip_space(text);
    } while (take(text, ','));
    return take(text, '}') ? TAKEN : DECLINED;
}

static Outcome take_of_kind(Column *column, Reader *reader)
{
    switch (column->kind) {
    case '{':
        return take_members(&column->members, reader);
    case '[':
        return take_list(column, reader);
    case 'm':
        return take_map(column, reader);
    case 's':
    case 'B':
        return take_string(column, &reader->text);
    case 'D':
    case 'T':
    case 'Z':
        return take_time(column, &reader->text);
    case '?':
        return take_boolean(column, &reader->text);
    case 'f':
    case 'd':
        return take_float(column, &reader->text);
    case 'p':
    case 'P':
        return take_decimal(column, &reader->text);
    case 'x':
        return DECLINED;
    default:
        return take_integer(column, &reader->text);
    }
}

static Outcome take_value(Column *column, Reader *reader)
{
    Text *text = &reader->text;
    if (text->at < text->end && *text->at == 'n')
        return column->is_required || !take_word(text, "null") ? DECLINED : append_null(column);
    Outcome outcome = take_of_kind(column, reader);
    return outcome == TAKEN ? end_value(column, 1) : outcome;
}

/* The column of this name, or NULL. Messages of one producer have their fields in one order, so the search begins behind the last one found. */
static Column *column_of(Members *members, const uint8_t *name, Py_ssize_t length)
{
    for (Py_ssize_t i = 0, index = members->next; i < members->count; i++, index++) {
        if (index >= members->count)
            index = 0;
        Column *column = &members->columns[index];
        if (column->name_length == length && memcmp(column->name, name, (size_t)length) == 0) {
            members->next = index + 1;
            return column;
        }
    }
    return NULL;
}

/* One field of the object of this number. */
static Outcome take_field(Members *members, Reader *reader, uint64_t object)
{
    Text *text = &reader->text;
    int has_escape = 0;
    const uint8_t *name;
    Py_ssize_t length;
    if (!take_name(text, &name, &length, &has_escape) || has_escape)
        return DECLINED;
    Column *column = column_of(members, name, length);
    skip_space(text);
    if (column == NULL)
        return skip_value(text, 0) ? TAKEN : DECLINED;
    if (column->object == object)
        return DECLINED;
    column->object = object;
    return take_value(column, reader);
}

/* An object, with a value for each of its columns. */
static Outcome take_members(Members *members, Reader *reader)
{
    Text *text = &reader->text;
    uint64_t object = ++reader->objects;
    members->next = 0;
    if (!take(text, '{'))
        return DECLINED;
    skip_space(text);
    if (!take(text, '}')) {
        do {
            skip_space(text);
            Outcome outcome = take_field(members, reader, object);
            if (outcome != TAKEN)
                return outcome;
            skip_space(text);
        } while (take(text, ','));
        if (!take(text, '}'))
            return DECLINED;
    }
    for (Py_ssize_t i = 0; i < members->count; i++) {
        Column *column = &members->columns[i];
        if (column->object == object)
            continue;
        Outcome outcome = column->is_required ? DECLINED : append_null(column);
        if (outcome != TAKEN)
            return outcome;
    }
    return TAKEN;
}

static Outcome take_message(Members *members, Reader *reader)
{
    if (reader->text.end - reader->text.at > MESSAGE_BYTES_MAX)
        return DECLINED;
    Outcome outcome = take_members(members, reader);
    if (outcome != TAKEN)
        return outcome;
    skip_space(&reader->text);
    return reader->text.at == reader->text.end ? TAKEN : DECLINED;
}

/* Reads all messages. `declined` has one byte for each, which is set where it is declined; those that are so already are not read. Returns
 * TAKEN, or why nothing can be read. */
static Outcome take_messages(Members *members, const uint8_t *data, const int32_t *ends, uint8_t *declined, Py_ssize_t rows)
{
    Reader reader = {{NULL, NULL}, 0};
    for (Py_ssize_t row = 0; row < rows; row++) {
        reader.text.at = data + ends[row];
        reader.text.end = data + ends[row + 1];
        Outcome outcome = declined[row] ? DECLINED : take_message(members, &reader);
        if (outcome < 0)
            return outcome;
        if (outcome == TAKEN)
            continue;
        declined[row] = 1;
        for (Py_ssize_t i = 0; i < members->count; i++) {
            cut(&members->columns[i], row);
            outcome = append_null(&members->columns[i]);
            if (outcome < 0)
                return outcome;
        }
    }
    return TAKEN;
}

/* Bytes that Arrow takes over without copying them. */
typedef struct {
    PyObject_HEAD
    uint8_t *bytes;
    Py_ssize_t length;
} Block;

static int block_buffer(PyObject *self, Py_buffer *view, int flags)
{
    Block *block = (Block *)self;
    return PyBuffer_FillInfo(view, self, block->bytes, block->length, 1, flags);
}

static void block_free(PyObject *self)
{
    free(((Block *)self)->bytes);
    Py_TYPE(self)->tp_free(self);
}

static PyBufferProcs block_procs = {.bf_getbuffer = block_buffer};

static PyTypeObject block_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "io_kafka.formats._json.Block",
    .tp_basicsize = sizeof(Block),
    .tp_dealloc = block_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_as_buffer = &block_procs,
};

/* The bytes of a buffer, which is empty afterwards. Arrow takes no null pointer, even for no bytes. */
static PyObject *block_of(Buffer *buffer)
{
    if (reserve(buffer, 1) < 0)
        return PyErr_NoMemory();
    Block *block = PyObject_New(Block, &block_type);
    if (block == NULL)
        return NULL;
    block->bytes = buffer->bytes;
    block->length = buffer->used;
    memset(buffer, 0, sizeof *buffer);
    return (PyObject *)block;
}

static int open_members(Members *members, PyObject *declared, Py_ssize_t rows, Py_ssize_t text_bytes, int depth);

/* `rows`: how many values are expected; 0 if that is not known. */
static int open_column(Column *column, PyObject *declared, Py_ssize_t rows, Py_ssize_t text_bytes, int depth)
{
    int kind;
    PyObject *detail;
    if (!PyArg_ParseTuple(declared, "y#CpO", &column->name, &column->name_length, &kind, &column->is_required, &detail))
        return -1;
    column->kind = (char)kind;
    int is_text = kind == 's' || kind == 'B';
    Py_ssize_t data_bytes = is_text ? text_bytes : kind == '?' ? rows / 8 + 1 : rows * width_of(column->kind);
    int is_without_memory = reserve(&column->validity, rows / 8 + 1) < 0 || reserve(&column->data, data_bytes) < 0;
    if (has_ends(column->kind))
        is_without_memory |= reserve(&column->ends, 4 * (rows + 1)) < 0 || append_end(&column->ends, 0) < 0;
    if (is_without_memory) {
        PyErr_NoMemory();
        return -1;
    }
    if (kind == 'p' || kind == 'P')
        return PyArg_ParseTuple(detail, "ii", &column->precision, &column->scale) ? 0 : -1;
    if (kind != '{' && kind != '[' && kind != 'm')
        return 0;
    if (open_members(&column->members, detail, kind == '{' ? rows : 0, kind == '{' ? text_bytes : 0, depth + 1) < 0)
        return -1;
    if (kind == '{' || column->members.count == (kind == '[' ? 1 : 2))
        return 0;
    PyErr_SetString(PyExc_ValueError, "a list has one column, and an object with any names has two");
    return -1;
}

/* Returns -1 with an exception. `close_members` frees what was opened. */
static int open_members(Members *members, PyObject *declared, Py_ssize_t rows, Py_ssize_t text_bytes, int depth)
{
    if (depth > COLUMN_DEPTH_MAX || !PyTuple_Check(declared)) {
        PyErr_SetString(PyExc_ValueError, "the columns are a tuple, and are not nested too deeply");
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(declared);
    members->columns = PyMem_Calloc((size_t)(count ? count : 1), sizeof(Column));
    if (members->columns == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    members->count = count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (open_column(&members->columns[i], PyTuple_GET_ITEM(declared, i), rows, text_bytes, depth) < 0)
            return -1;
    return 0;
}

static void close_members(Members *members)
{
    for (Py_ssize_t i = 0; i < members->count; i++) {
        Column *column = &members->columns[i];
        close_members(&column->members);
        free(column->validity.bytes);
        free(column->data.bytes);
        free(column->ends.bytes);
    }
    PyMem_Free(members->columns);
}

static Py_ssize_t nulls_of(const Column *column)
{
    Py_ssize_t valid = 0;
    for (Py_ssize_t i = 0; i < column->validity.used; i++)
        valid += __builtin_popcount(column->validity.bytes[i]);
    return column->length - valid;
}

static PyObject *found_in(Members *members)
{
    PyObject *found = PyList_New(members->count);
    for (Py_ssize_t i = 0; found != NULL && i < members->count; i++) {
        Column *column = &members->columns[i];
        Py_ssize_t nulls = nulls_of(column); /* before the bytes are handed out, for arguments are evaluated in any order */
        PyObject *within = found_in(&column->members), *each = NULL;
        if (within != NULL)
            each = Py_BuildValue("(nnNNNN)", column->length, nulls, block_of(&column->validity), block_of(&column->data),
                                 block_of(&column->ends), within);
        if (each == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, i, each);
    }
    return found;
}

/* read(bytes of the messages, ends as int32 (one more than messages), one byte per message that is not 0 if it is declined already, columns,
 *      bytes to begin with for the texts of each column)
 * -> (one byte per message that is 1 if it was declined, [(values, nulls, validity, data, ends, columns within it)])
 *
 * A message that was declined is null in all columns. Lists, objects and columns that are declined have no data. */
static PyObject *json_read(PyObject *self, PyObject *args)
{
    Py_buffer data, ends, declined;
    PyObject *declared, *result = NULL, *found;
    Py_ssize_t text_bytes;
    Members members = {NULL, 0, 0};
    Buffer out = {NULL, 0, 0};
    Outcome outcome;
    if (!PyArg_ParseTuple(args, "y*y*y*On", &data, &ends, &declined, &declared, &text_bytes))
        return NULL;
    Py_ssize_t rows = declined.len;
    const int32_t *end_of = ends.buf;
    if (rows < 0 || ends.len != 4 * (rows + 1) || end_of[0] < 0 || end_of[rows] > data.len || text_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "the messages do not lie within the bytes");
        goto end;
    }
    if (open_members(&members, declared, rows, text_bytes, 0) < 0)
        goto end;
    if (append_bytes(&out, declined.buf, rows) < 0) {
        PyErr_NoMemory();
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS;
    outcome = take_messages(&members, data.buf, end_of, out.bytes, rows);
    Py_END_ALLOW_THREADS;
    if (outcome == NO_MEMORY)
        PyErr_NoMemory();
    else if (outcome == TOO_LONG)
        PyErr_SetString(PyExc_OverflowError, "the values of a column have more than 2 GiB");
    else if ((found = found_in(&members)) != NULL)
        result = Py_BuildValue("(NN)", block_of(&out), found);
end:
    close_members(&members);
    free(out.bytes);
    PyBuffer_Release(&data);
    PyBuffer_Release(&ends);
    PyBuffer_Release(&declined);
    return result;
}

static PyMethodDef methods[] = {
    {"read", json_read, METH_VARARGS, "Reads the usual messages into columns."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_json", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__json(void)
{
    if (plain_locale == (locale_t)0)
        plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain_locale == (locale_t)0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyType_Ready(&block_type) < 0 ? NULL : PyModule_Create(&module);
}
