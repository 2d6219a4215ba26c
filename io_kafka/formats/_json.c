/* Reads JSON messages of the usual form into the buffers of Arrow columns. usual.py is the only caller, and parse.py reads every other message.
 *
 * A message is usual if it is one object in strict JSON and UTF-8, in which no declared column occurs twice and every declared column has a value
 * of its own kind. Whatever is doubtful is declined: the caller then reads that message as if this extension did not exist. So a message that
 * is accepted here must mean the same to Spark's reader, and nothing else has to be right.
 *
 * A column is the tuple (name, kind, whether a value is required, detail). The kinds: b, h, i, q integers of 1, 2, 4 and 8 bytes; d doubles;
 * ? booleans; s texts without their quotes; D dates as days since 1970; T and Z timestamps as microseconds since 1970, without and with a zone,
 * which is UTC; p decimals of 16 bytes, whose detail is (precision, scale); { objects, whose detail is the tuple of their columns. Others have no
 * detail.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum {
    MESSAGE_BYTES_MAX = 1 << 20,
    NAME_LENGTH_MAX = 1000, /* Jackson's limit is 50,000 */
    DEPTH_MAX = 64,         /* of values that are skipped; Jackson's limit is 1000 */
    NUMBER_LENGTH_MAX = 64, /* longer numbers are rare, and Jackson has a limit for them */
    INTEGER_DIGITS_MAX = 18,
    EXACT_DIGITS_MAX = 15, /* an integer of so many digits is a double without rounding */
    EXACT_POWER_MAX = 22,  /* and so is this power of ten */
    COLUMN_DEPTH_MAX = 32, /* of declared objects within objects */
};

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
    Py_ssize_t last_row; /* the last message that had it; -1 before the first */
    Py_ssize_t nulls;
    PyObject *validity, *data, *ends; /* bytes objects */
    Py_ssize_t used;                  /* bytes of texts */
    int precision, scale;
    Members members; /* of an object */
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
    case 'D':
        return 4;
    case 'q':
    case 'd':
    case 'T':
    case 'Z':
        return 8;
    case 'p':
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

/* Moves behind the quote that ends a string, whose first quote was taken. Returns 0 unless all of it is valid and usual. An escape that names a
 * code point is not. */
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
            if (end - at < 2 || at[1] == 0 || strchr("\"\\/bfnrt", at[1]) == NULL)
                return 0;
            *has_escape = 1;
            at += 2;
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

/* Rounded correctly. `failed` is set, with an exception, if Python cannot do it. */
static double double_of(const Number *number, int *failed)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    double value;
    if (number->digits <= EXACT_DIGITS_MAX && number->power >= -EXACT_POWER_MAX && number->power <= EXACT_POWER_MAX) {
        value = (double)number->digits_value;
        value = number->power < 0 ? value / powers[-number->power] : value * powers[number->power];
        /* The integer -0 is 0, and the double -0.0 is not. */
        return number->is_negative && !(number->is_integral && value == 0) ? -value : value;
    }
    char copy[NUMBER_LENGTH_MAX + 1];
    memcpy(copy, number->first, (size_t)number->length);
    copy[number->length] = 0;
    value = PyOS_string_to_double(copy, NULL, NULL);
    *failed = value == -1.0 && PyErr_Occurred() != NULL;
    return value;
}

/* The number times 10^scale, if that is an integer of at most `precision` digits. A number with an exponent is declined: Java's decimals treat
 * some of them as errors. */
static int decimal_of(const Number *number, int precision, int scale, __int128 *unscaled)
{
    int zeros = number->power + scale;
    if (number->has_exponent || number->digits > INTEGER_DIGITS_MAX || zeros < 0 || number->digits + zeros > precision)
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

/* The microseconds since 1970 of YYYY-MM-DD, also with T or a blank and HH:MM:SS, up to nine digits of a fraction, and a Z if `with_zone`. */
static int microseconds_of(const uint8_t *at, Py_ssize_t length, int with_zone, int64_t *us)
{
    int64_t days;
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
    Py_ssize_t end = with_zone && at[length - 1] == 'Z' ? length - 1 : length;
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
    *us += ((hour * 60 + minute) * 60 + second) * (int64_t)1000000 + fraction;
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

/* Appends a string without its quotes. Returns -1 with an exception if there is no memory. */
static int append_text(Column *column, const uint8_t *at, const uint8_t *end, int has_escape)
{
    Py_ssize_t capacity = PyBytes_GET_SIZE(column->data), needed = column->used + (end - at);
    if (needed > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "the texts of a column have more than 2 GiB");
        return -1;
    }
    if (needed > capacity && _PyBytes_Resize(&column->data, needed > 2 * capacity ? needed : 2 * capacity) < 0)
        return -1;
    uint8_t *to = (uint8_t *)PyBytes_AS_STRING(column->data) + column->used;
    if (!has_escape) {
        memcpy(to, at, (size_t)(end - at));
        column->used = needed;
        return 0;
    }
    const uint8_t *first = to;
    for (; at < end; at++) {
        if (*at != '\\') {
            *to++ = *at;
            continue;
        }
        switch (*++at) {
        case 'b':
            *to++ = '\b';
            break;
        case 'f':
            *to++ = '\f';
            break;
        case 'n':
            *to++ = '\n';
            break;
        case 'r':
            *to++ = '\r';
            break;
        case 't':
            *to++ = '\t';
            break;
        default:
            *to++ = *at;
        }
    }
    column->used += to - first;
    return 0;
}

static int take_members(Members *members, Text *text, Py_ssize_t row);

/* The value of a column: 1 if it was taken, 0 if the message is declined, -1 with an exception. */
static int take_value(Column *column, Text *text, Py_ssize_t row)
{
    Number number;
    uint8_t *data = column->data == NULL ? NULL : (uint8_t *)PyBytes_AS_STRING(column->data);
    if (text->at < text->end && *text->at == 'n')
        return !column->is_required && take_word(text, "null");
    switch (column->kind) {
    case '{': {
        int taken = take_members(&column->members, text, row);
        if (taken != 1)
            return taken;
        break;
    }
    case 'p': {
        __int128 unscaled;
        if (!take_number(text, &number) || !decimal_of(&number, column->precision, column->scale, &unscaled))
            return 0;
        memcpy(data + 16 * row, &unscaled, 16);
        break;
    }
    case 's': {
        int has_escape = 0;
        const uint8_t *first = text->at + 1;
        if (!take(text, '"') || !skip_string(text, &has_escape))
            return 0;
        if (append_text(column, first, text->at - 1, has_escape) < 0)
            return -1;
        break;
    }
    case 'D':
    case 'T':
    case 'Z': {
        int has_escape = 0;
        int64_t value;
        const uint8_t *first = text->at + 1;
        if (!take(text, '"') || !skip_string(text, &has_escape) || has_escape)
            return 0;
        Py_ssize_t length = text->at - 1 - first;
        if (column->kind == 'D') {
            if (length < 10 || (length > 10 && first[10] != 'T' && first[10] != ' ') || !days_of(first, &value))
                return 0;
            ((int32_t *)data)[row] = (int32_t)value;
        } else {
            if (!microseconds_of(first, length, column->kind == 'Z', &value))
                return 0;
            ((int64_t *)data)[row] = value;
        }
        break;
    }
    case '?':
        if (take_word(text, "true"))
            data[row / 8] |= (uint8_t)(1u << (row % 8));
        else if (!take_word(text, "false"))
            return 0;
        break;
    case 'd': {
        int failed = 0;
        if (!take_number(text, &number))
            return 0;
        double value = double_of(&number, &failed);
        if (failed)
            return -1;
        memcpy(data + 8 * row, &value, 8);
        break;
    }
    default: {
        if (!take_number(text, &number) || !number.is_integral || number.digits > INTEGER_DIGITS_MAX)
            return 0;
        int64_t value = number.is_negative ? -(int64_t)number.digits_value : (int64_t)number.digits_value;
        Py_ssize_t width = width_of(column->kind);
        int64_t limit = width == 8 ? INT64_MAX : ((int64_t)1 << (8 * width - 1)) - 1;
        if (value > limit || value < -limit - 1)
            return 0;
        if (width == 1)
            ((int8_t *)data)[row] = (int8_t)value;
        else if (width == 2)
            ((int16_t *)data)[row] = (int16_t)value;
        else if (width == 4)
            ((int32_t *)data)[row] = (int32_t)value;
        else
            ((int64_t *)data)[row] = value;
    }
    }
    ((uint8_t *)PyBytes_AS_STRING(column->validity))[row / 8] |= (uint8_t)(1u << (row % 8));
    return 1;
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

/* One field of an object: as take_members. */
static int take_field(Members *members, Text *text, Py_ssize_t row)
{
    int has_escape = 0;
    const uint8_t *name;
    Py_ssize_t length;
    if (!take_name(text, &name, &length, &has_escape) || has_escape)
        return 0;
    Column *column = column_of(members, name, length);
    skip_space(text);
    if (column == NULL)
        return skip_value(text, 0);
    if (column->last_row == row)
        return 0;
    column->last_row = row;
    return take_value(column, text, row);
}

/* An object: 1 if it was taken, 0 if the message is declined, -1 with an exception. */
static int take_members(Members *members, Text *text, Py_ssize_t row)
{
    members->next = 0;
    if (!take(text, '{'))
        return 0;
    skip_space(text);
    if (!take(text, '}')) {
        do {
            skip_space(text);
            int taken = take_field(members, text, row);
            if (taken != 1)
                return taken;
            skip_space(text);
        } while (take(text, ','));
        if (!take(text, '}'))
            return 0;
    }
    for (Py_ssize_t i = 0; i < members->count; i++)
        if (members->columns[i].is_required && members->columns[i].last_row != row)
            return 0;
    return 1;
}

/* One message: as take_members. */
static int take_message(Members *members, Text *text, Py_ssize_t row)
{
    if (text->end - text->at > MESSAGE_BYTES_MAX)
        return 0;
    int taken = take_members(members, text, row);
    if (taken != 1)
        return taken;
    skip_space(text);
    return text->at == text->end;
}

static void clear_row(Members *members, Py_ssize_t row)
{
    for (Py_ssize_t i = 0; i < members->count; i++) {
        Column *column = &members->columns[i];
        uint8_t *validity = (uint8_t *)PyBytes_AS_STRING(column->validity);
        validity[row / 8] &= (uint8_t) ~(1u << (row % 8));
        if (column->ends != NULL)
            column->used = ((int32_t *)PyBytes_AS_STRING(column->ends))[row];
        clear_row(&column->members, row);
    }
}

static void end_row(Members *members, Py_ssize_t row)
{
    for (Py_ssize_t i = 0; i < members->count; i++) {
        Column *column = &members->columns[i];
        const uint8_t *validity = (const uint8_t *)PyBytes_AS_STRING(column->validity);
        column->nulls += !(validity[row / 8] >> (row % 8) & 1);
        if (column->ends != NULL)
            ((int32_t *)PyBytes_AS_STRING(column->ends))[row + 1] = (int32_t)column->used;
        end_row(&column->members, row);
    }
}

static PyObject *zeros(Py_ssize_t length)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, length);
    if (bytes != NULL)
        memset(PyBytes_AS_STRING(bytes), 0, (size_t)length);
    return bytes;
}

static int open_members(Members *members, PyObject *declared, Py_ssize_t rows, Py_ssize_t text_bytes, int depth);

static int open_column(Column *column, PyObject *declared, Py_ssize_t rows, Py_ssize_t text_bytes, int depth)
{
    int kind;
    PyObject *detail;
    if (!PyArg_ParseTuple(declared, "y#CpO", &column->name, &column->name_length, &kind, &column->is_required, &detail))
        return -1;
    column->kind = (char)kind;
    column->last_row = -1;
    if ((column->validity = zeros(rows / 8 + 1)) == NULL)
        return -1;
    if (kind == '{')
        return open_members(&column->members, detail, rows, text_bytes, depth + 1);
    if (kind == 'p' && !PyArg_ParseTuple(detail, "ii", &column->precision, &column->scale))
        return -1;
    if (kind == 's' && (column->ends = zeros(4 * (rows + 1))) == NULL)
        return -1;
    column->data = zeros(kind == 's' ? text_bytes + 64 : kind == '?' ? rows / 8 + 1 : rows * width_of(column->kind));
    return column->data == NULL ? -1 : 0;
}

/* Returns -1 with an exception. `close_members` frees what was opened. */
static int open_members(Members *members, PyObject *declared, Py_ssize_t rows, Py_ssize_t text_bytes, int depth)
{
    if (depth > COLUMN_DEPTH_MAX || !PyTuple_Check(declared)) {
        PyErr_SetString(PyExc_ValueError, "an object's columns are a tuple, and are not nested too deeply");
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
        Py_XDECREF(column->validity);
        Py_XDECREF(column->data);
        Py_XDECREF(column->ends);
    }
    PyMem_Free(members->columns);
}

static PyObject *found_in(Members *members);

static PyObject *found_in_column(Column *column)
{
    if (column->kind == '{') {
        PyObject *found = found_in(&column->members);
        return found == NULL ? NULL : Py_BuildValue("(nOOON)", column->nulls, column->validity, Py_None, Py_None, found);
    }
    if (column->ends != NULL && _PyBytes_Resize(&column->data, column->used) < 0)
        return NULL;
    return Py_BuildValue("(nOOOO)", column->nulls, column->validity, column->data,
                         column->ends == NULL ? Py_None : column->ends, Py_None);
}

static PyObject *found_in(Members *members)
{
    PyObject *found = PyList_New(members->count);
    for (Py_ssize_t i = 0; found != NULL && i < members->count; i++) {
        PyObject *column = found_in_column(&members->columns[i]);
        if (column == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, i, column);
    }
    return found;
}

/* read(bytes of the messages, ends as int32 (one more than messages), one byte per message that is not 0 if it is declined already, columns,
 *      bytes to begin with for the texts of each column)
 * -> (one byte per message that is 1 if it was declined, [(nulls, validity, data, ends of texts or None, columns of an object or None)])
 *
 * A message that was declined is null in all columns. An object has no data. */
static PyObject *json_read(PyObject *self, PyObject *args)
{
    Py_buffer data, ends, declined;
    PyObject *declared, *result = NULL, *found, *out = NULL;
    Py_ssize_t text_bytes;
    Members members = {NULL, 0, 0};
    if (!PyArg_ParseTuple(args, "y*y*y*On", &data, &ends, &declined, &declared, &text_bytes))
        return NULL;
    Py_ssize_t rows = declined.len;
    const int32_t *end_of = ends.buf;
    if (ends.len != 4 * (rows + 1) || end_of[0] < 0 || end_of[rows] > data.len || text_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "the messages do not lie within the bytes");
        goto end;
    }
    if (open_members(&members, declared, rows, text_bytes, 0) < 0 || (out = zeros(rows)) == NULL)
        goto end;
    for (Py_ssize_t row = 0; row < rows; row++) {
        Text text = {(const uint8_t *)data.buf + end_of[row], (const uint8_t *)data.buf + end_of[row + 1]};
        int taken = ((const char *)declined.buf)[row] ? 0 : take_message(&members, &text, row);
        if (taken < 0)
            goto end;
        if (!taken) {
            PyBytes_AS_STRING(out)[row] = 1;
            clear_row(&members, row);
        }
        end_row(&members, row);
    }
    if ((found = found_in(&members)) != NULL)
        result = Py_BuildValue("(ON)", out, found);
end:
    close_members(&members);
    Py_XDECREF(out);
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
    return PyModule_Create(&module);
}
