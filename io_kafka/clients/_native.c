/* Copies a batch of messages from librdkafka straight into buffers, and produces a batch of messages straight from buffers. No Python object
 * is made per message, and the interpreter's lock is released most of the time, so that other threads compute meanwhile. native.py is the
 * only caller. consumed.py and open_transaction.py have equivalents in Python.
 *
 * The clients are confluent-kafka's own, and its functions are used as its `Consumer.consume` uses them: CallState_begin releases the
 * interpreter's lock, and tells the client's callbacks (errors, log) how to acquire it again. CallState_end acquires it, and fails if one of
 * them raised. Nothing is linked: native.py finds the addresses in the library that is loaded, and refuses other versions of it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* rd_kafka_message_t, of librdkafka's public interface. */
typedef struct {
    int error;
    void *topic;
    int32_t partition;
    void *value;
    size_t value_length;
    void *key;
    size_t key_length;
    int64_t offset;
    void *internal;
} Message;

/* The first fields of every Handle of confluent-kafka. */
typedef struct {
    PyObject_HEAD
    void *client;
} Handle;

/* rd_kafka_vu_t: one part of a message that is produced. The enum has the kinds that are used here. */
typedef struct {
    int kind;
    union {
        void *topic;
        int32_t partition;
        int flags;
        struct {
            const void *bytes;
            size_t length;
        } bytes;
        struct {
            const char *name;
            const void *value;
            Py_ssize_t length;
        } header;
        char padding[64];
    } of;
} Part;
enum { PART_TOPIC = 2, PART_PARTITION = 3, PART_VALUE = 4, PART_KEY = 5, PART_FLAGS = 7, PART_HEADER = 9 };
enum { FLAG_COPY = 2 };

/* Larger than confluent-kafka's own, which is two words. */
typedef struct {
    void *words[16];
} CallState;

/* What librdkafka's header says of these structures where pointers have eight bytes. Elsewhere the extension is not built. */
_Static_assert(sizeof(void *) == 8 && sizeof(int) == 4, "the layouts below are those of 64 bits");
_Static_assert(offsetof(Message, topic) == 8 && offsetof(Message, partition) == 16 && offsetof(Message, value) == 24 &&
                   offsetof(Message, key) == 40 && offsetof(Message, offset) == 56 && sizeof(Message) == 72,
               "rd_kafka_message_t");
_Static_assert(offsetof(Part, of) == 8 && sizeof(Part) == 72, "rd_kafka_vu_t has 64 bytes behind its kind");
_Static_assert(offsetof(Handle, client) == sizeof(PyObject), "the client is the first field of a Handle");

static struct {
    void (*begin)(void *handle, CallState *state);
    int (*end)(void *handle, CallState *state);
    void *(*queue_of)(void *client);
    void (*queue_destroy)(void *queue);
    Py_ssize_t (*consume)(void *queue, int timeout_ms, Message **messages, size_t most);
    void (*message_destroy)(Message *message);
    const char *(*topic_name)(void *topic);
    const char *(*error_text)(const Message *message);
    void *(*topic_new)(void *client, const char *name, void *config);
    void (*topic_destroy)(void *topic);
    void *(*produce)(void *client, const Part *parts, size_t count);
    int (*fault_code)(const void *fault);
    const char *(*fault_text)(const void *fault);
    void (*fault_destroy)(void *fault);
    int64_t (*timestamp)(const Message *message, int *kind);
    int (*headers)(const Message *message, void **headers);
    int (*header)(const void *headers, size_t index, const char **name, const void **value, size_t *length);
} client;

/* What `consume` returns of each message besides key, value and offset: see extras.py. */
enum { EXTRAS_TIMESTAMPS = 1, EXTRAS_HEADERS = 2 };

static PyObject *native_bind(PyObject *self, PyObject *args)
{
    unsigned long long at[17];
    if (!PyArg_ParseTuple(args, "KKKKKKKKKKKKKKKKK", &at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &at[6], &at[7], &at[8],
                          &at[9], &at[10], &at[11], &at[12], &at[13], &at[14], &at[15], &at[16]))
        return NULL;
    client.begin = (void (*)(void *, CallState *))(uintptr_t)at[0];
    client.end = (int (*)(void *, CallState *))(uintptr_t)at[1];
    client.queue_of = (void *(*)(void *))(uintptr_t)at[2];
    client.queue_destroy = (void (*)(void *))(uintptr_t)at[3];
    client.consume = (Py_ssize_t(*)(void *, int, Message **, size_t))(uintptr_t)at[4];
    client.message_destroy = (void (*)(Message *))(uintptr_t)at[5];
    client.topic_name = (const char *(*)(void *))(uintptr_t)at[6];
    client.error_text = (const char *(*)(const Message *))(uintptr_t)at[7];
    client.topic_new = (void *(*)(void *, const char *, void *))(uintptr_t)at[8];
    client.topic_destroy = (void (*)(void *))(uintptr_t)at[9];
    client.produce = (void *(*)(void *, const Part *, size_t))(uintptr_t)at[10];
    client.fault_code = (int (*)(const void *))(uintptr_t)at[11];
    client.fault_text = (const char *(*)(const void *))(uintptr_t)at[12];
    client.fault_destroy = (void (*)(void *))(uintptr_t)at[13];
    client.timestamp = (int64_t(*)(const Message *, int *))(uintptr_t)at[14];
    client.headers = (int (*)(const Message *, void **))(uintptr_t)at[15];
    client.header = (int (*)(const void *, size_t, const char **, const void **, size_t *))(uintptr_t)at[16];
    Py_RETURN_NONE;
}

static PyObject *native_open_queue(PyObject *self, PyObject *consumer)
{
    void *rk = ((Handle *)consumer)->client;
    if (rk == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the consumer is closed");
        return NULL;
    }
    return PyLong_FromVoidPtr(client.queue_of(rk));
}

static PyObject *native_close_queue(PyObject *self, PyObject *queue)
{
    void *address = PyLong_AsVoidPtr(queue);
    if (PyErr_Occurred())
        return NULL;
    client.queue_destroy(address);
    Py_RETURN_NONE;
}

static int64_t length_of(const Message *message, const void *bytes, size_t length)
{
    return message->error || bytes == NULL ? -1 : (int64_t)length;
}

/* The timestamp of a message in milliseconds since 1970; -1 if it has none, or is an error. */
static long long timestamp_of(const Message *message)
{
    int kind = 0;
    return message->error ? -1 : (long long)client.timestamp(message, &kind);
}

/* Consecutive messages of one partition are a run: (0, topic, partition, first offset, first, end, None, timestamp of the first message,
 * of the last). An error is a run by itself, with its text. */
static PyObject *runs_of(Message **messages, Py_ssize_t count)
{
    PyObject *runs = PyList_New(0);
    for (Py_ssize_t first = 0, end; runs != NULL && first < count; first = end) {
        const Message *message = messages[first];
        for (end = first + 1; end < count && !message->error && !messages[end]->error &&
                              messages[end]->topic == message->topic && messages[end]->partition == message->partition;
             end++)
            ;
        const char *topic = message->topic == NULL ? NULL : client.topic_name(message->topic);
        const char *text = message->error ? client.error_text(message) : NULL;
        PyObject *run = Py_BuildValue("(iziLnnzLL)", message->error, topic, (int)message->partition,
                                      (long long)message->offset, first, end, text, timestamp_of(message),
                                      timestamp_of(messages[end - 1]));
        if (run == NULL || PyList_Append(runs, run) < 0)
            Py_CLEAR(runs);
        Py_XDECREF(run);
    }
    return runs;
}

static void fill(Message **messages, Py_ssize_t count, int64_t *offsets, int64_t *key_lengths, int64_t *value_lengths,
                 char *keys, char *values)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        const Message *message = messages[i];
        offsets[i] = message->offset;
        key_lengths[i] = length_of(message, message->key, message->key_length);
        value_lengths[i] = length_of(message, message->value, message->value_length);
        if (key_lengths[i] > 0) {
            memcpy(keys, message->key, message->key_length);
            keys += message->key_length;
        }
        if (value_lengths[i] > 0) {
            memcpy(values, message->value, message->value_length);
            values += message->value_length;
        }
    }
}

/* The headers of a message; NULL if it has none, or is an error. */
static void *headers_of(const Message *message)
{
    void *headers = NULL;
    return message->error || client.headers(message, &headers) ? NULL : headers;
}

/* The sizes of all headers of all messages. */
typedef struct {
    Py_ssize_t headers, name_bytes, value_bytes;
} HeaderSizes;

static HeaderSizes sizes_of_headers(Message **messages, Py_ssize_t count)
{
    HeaderSizes sizes = {0, 0, 0};
    const char *name;
    const void *value;
    size_t length;
    for (Py_ssize_t i = 0; i < count; i++) {
        void *headers = headers_of(messages[i]);
        for (size_t at = 0; headers != NULL && client.header(headers, at, &name, &value, &length) == 0; at++) {
            sizes.headers++;
            sizes.name_bytes += (Py_ssize_t)strlen(name);
            sizes.value_bytes += value == NULL ? 0 : (Py_ssize_t)length;
        }
    }
    return sizes;
}

static void fill_timestamps(Message **messages, Py_ssize_t count, int64_t *timestamps, int32_t *kinds)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        int kind = 0;
        timestamps[i] = messages[i]->error ? -1 : client.timestamp(messages[i], &kind);
        kinds[i] = kind;
    }
}

/* counts: of the headers of each message. */
static void fill_headers(Message **messages, Py_ssize_t count, int64_t *counts, int64_t *name_lengths, int64_t *value_lengths,
                         char *names, char *values)
{
    const char *name;
    const void *value;
    size_t length;
    for (Py_ssize_t i = 0; i < count; i++) {
        void *headers = headers_of(messages[i]);
        counts[i] = 0;
        for (size_t at = 0; headers != NULL && client.header(headers, at, &name, &value, &length) == 0; at++) {
            size_t name_length = strlen(name);
            counts[i]++;
            *name_lengths++ = (int64_t)name_length;
            memcpy(names, name, name_length);
            names += name_length;
            *value_lengths++ = value == NULL ? -1 : (int64_t)length;
            if (value != NULL && length > 0) {
                memcpy(values, value, length);
                values += length;
            }
        }
    }
}

/* A tuple of `count` new bytes objects of these sizes; NULL if there is no memory. */
static PyObject *blocks(const Py_ssize_t *sizes, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *block = PyBytes_FromStringAndSize(NULL, sizes[i]);
        if (block == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, block);
    }
    return tuple;
}

#define BLOCK(tuple, index) ((void *)PyBytes_AS_STRING(PyTuple_GET_ITEM(tuple, index)))

/* (timestamps, their kinds), and with EXTRAS_HEADERS also (counts, lengths of names, lengths of values, names, values). */
static PyObject *extras_of(Message **messages, Py_ssize_t count, int extras)
{
    HeaderSizes found = {0, 0, 0};
    Py_ssize_t of_int64 = (Py_ssize_t)sizeof(int64_t);
    Py_BEGIN_ALLOW_THREADS
    if (extras == EXTRAS_HEADERS)
        found = sizes_of_headers(messages, count);
    Py_END_ALLOW_THREADS
    Py_ssize_t sizes[] = {count * of_int64,         count * (Py_ssize_t)sizeof(int32_t), count * of_int64, found.headers * of_int64,
                          found.headers * of_int64, found.name_bytes,                    found.value_bytes};
    PyObject *tuple = blocks(sizes, extras == EXTRAS_HEADERS ? 7 : 2);
    if (tuple == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    fill_timestamps(messages, count, BLOCK(tuple, 0), BLOCK(tuple, 1));
    if (extras == EXTRAS_HEADERS)
        fill_headers(messages, count, BLOCK(tuple, 2), BLOCK(tuple, 3), BLOCK(tuple, 4), BLOCK(tuple, 5), BLOCK(tuple, 6));
    Py_END_ALLOW_THREADS
    return tuple;
}

static PyObject *gathered(Message **messages, Py_ssize_t count, Py_ssize_t key_bytes, Py_ssize_t value_bytes, int extras)
{
    Py_ssize_t column_bytes = count * (Py_ssize_t)sizeof(int64_t);
    PyObject *runs = runs_of(messages, count);
    PyObject *offsets = PyBytes_FromStringAndSize(NULL, column_bytes);
    PyObject *key_lengths = PyBytes_FromStringAndSize(NULL, column_bytes);
    PyObject *value_lengths = PyBytes_FromStringAndSize(NULL, column_bytes);
    PyObject *keys = PyBytes_FromStringAndSize(NULL, key_bytes);
    PyObject *values = PyBytes_FromStringAndSize(NULL, value_bytes);
    PyObject *more = extras ? extras_of(messages, count, extras) : PyTuple_New(0);
    if (runs == NULL || offsets == NULL || key_lengths == NULL || value_lengths == NULL || keys == NULL || values == NULL ||
        more == NULL) {
        Py_XDECREF(runs);
        Py_XDECREF(offsets);
        Py_XDECREF(key_lengths);
        Py_XDECREF(value_lengths);
        Py_XDECREF(keys);
        Py_XDECREF(values);
        Py_XDECREF(more);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    fill(messages, count, (int64_t *)PyBytes_AS_STRING(offsets), (int64_t *)PyBytes_AS_STRING(key_lengths),
         (int64_t *)PyBytes_AS_STRING(value_lengths), PyBytes_AS_STRING(keys), PyBytes_AS_STRING(values));
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(NNNNNNN)", runs, offsets, key_lengths, value_lengths, keys, values, more);
}

static PyObject *native_consume(PyObject *self, PyObject *args)
{
    PyObject *consumer, *result = NULL;
    unsigned long long queue;
    Py_ssize_t most, count, key_bytes = 0, value_bytes = 0;
    int timeout_ms, extras;
    CallState state = {{NULL}};
    if (!PyArg_ParseTuple(args, "OKnii", &consumer, &queue, &most, &timeout_ms, &extras))
        return NULL;
    Message **messages = PyMem_RawMalloc(sizeof(Message *) * (size_t)(most > 0 ? most : 1));
    if (messages == NULL)
        return PyErr_NoMemory();
    client.begin(consumer, &state);
    count = client.consume((void *)(uintptr_t)queue, timeout_ms, messages, (size_t)most);
    for (Py_ssize_t i = 0; i < count; i++) {
        const Message *message = messages[i];
        int64_t key_length = length_of(message, message->key, message->key_length);
        int64_t value_length = length_of(message, message->value, message->value_length);
        key_bytes += key_length > 0 ? key_length : 0;
        value_bytes += value_length > 0 ? value_length : 0;
    }
    if (client.end(consumer, &state)) {
        if (count < 0)
            PyErr_SetString(PyExc_RuntimeError, "librdkafka refused to give messages");
        else
            result = gathered(messages, count, key_bytes, value_bytes, extras);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++)
        client.message_destroy(messages[i]);
    PyMem_RawFree(messages);
    Py_END_ALLOW_THREADS
    return result;
}

/* A column of binary values. Value i is `ends[i]` to `ends[i + 1]` of `bytes`; `present` has one byte per value, 0 for null. */
typedef struct {
    Py_buffer ends, present, bytes;
} Column;

static Part bytes_part(int kind, const Column *column, Py_ssize_t row)
{
    const int64_t *ends = column->ends.buf;
    Part part = {.kind = kind};
    if (((const char *)column->present.buf)[row]) {
        part.of.bytes.bytes = (const char *)column->bytes.buf + ends[row];
        part.of.bytes.length = (size_t)(ends[row + 1] - ends[row]);
    }
    return part;
}

/* Produces the rows from `first` on until the client refuses one. Returns the number of that row, with the reason in `*fault`, or of all rows. */
static Py_ssize_t give(void *rk, void *topic, int32_t partition, const Column *keys, const Column *values, Py_ssize_t first,
                       const char *header, const Py_buffer *header_value, void **fault)
{
    Py_ssize_t row = first, rows = keys->present.len;
    Part parts[6] = {{.kind = PART_TOPIC, .of.topic = topic},
                     {.kind = PART_PARTITION, .of.partition = partition},
                     {.kind = PART_FLAGS, .of.flags = FLAG_COPY}};
    size_t count = 5;
    if (header != NULL) {
        parts[5] = (Part){.kind = PART_HEADER,
                          .of.header = {.name = header, .value = header_value->buf, .length = header_value->len}};
        count = 6;
    }
    for (*fault = NULL; row < rows; row++) {
        parts[3] = bytes_part(PART_KEY, keys, row);
        parts[4] = bytes_part(PART_VALUE, values, row);
        if ((*fault = client.produce(rk, parts, count)) != NULL)
            break;
    }
    return row;
}

static int is_whole(const Column *column, Py_ssize_t rows)
{
    const int64_t *ends = column->ends.buf;
    if (column->present.len != rows || column->ends.len != (rows + 1) * (Py_ssize_t)sizeof(int64_t) || ends[0] < 0 ||
        ends[rows] > column->bytes.len)
        return 0;
    for (Py_ssize_t row = 0; row < rows; row++)
        if (ends[row] > ends[row + 1])
            return 0;
    return 1;
}

static PyObject *native_produce(PyObject *self, PyObject *args)
{
    PyObject *producer, *result = NULL;
    const char *name, *header;
    int partition;
    Py_ssize_t first, reached;
    Py_buffer header_value;
    Column keys, values;
    void *rk, *topic, *fault = NULL;
    if (!PyArg_ParseTuple(args, "Osiny*y*y*y*y*y*zy*", &producer, &name, &partition, &first, &keys.ends, &keys.present, &keys.bytes,
                          &values.ends, &values.present, &values.bytes, &header, &header_value))
        return NULL;
    rk = ((Handle *)producer)->client;
    if (first < 0 || !is_whole(&keys, keys.present.len) || !is_whole(&values, keys.present.len))
        PyErr_SetString(PyExc_ValueError, "columns of different lengths, or beyond their bytes");
    else if (rk == NULL || (topic = client.topic_new(rk, name, NULL)) == NULL)
        PyErr_Format(PyExc_RuntimeError, "librdkafka refused to write to topic %s", name);
    else {
        Py_BEGIN_ALLOW_THREADS
        reached = give(rk, topic, (int32_t)partition, &keys, &values, first, header, &header_value, &fault);
        client.topic_destroy(topic);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("(niz)", reached, fault == NULL ? 0 : client.fault_code(fault),
                               fault == NULL ? NULL : client.fault_text(fault));
        if (fault != NULL)
            client.fault_destroy(fault);
    }
    Py_buffer *buffers[] = {&keys.ends, &keys.present, &keys.bytes, &values.ends, &values.present, &values.bytes, &header_value};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        PyBuffer_Release(buffers[i]);
    return result;
}

static PyMethodDef methods[] = {
    {"bind", native_bind, METH_VARARGS, "bind(address, ...): of the functions, in the order of native.py"},
    {"open_queue", native_open_queue, METH_O, "open_queue(consumer) -> address of its queue, to be closed before the consumer"},
    {"close_queue", native_close_queue, METH_O, "close_queue(queue)"},
    {"consume", native_consume, METH_VARARGS,
     "consume(consumer, queue, most, timeout_ms, extras) -> (runs, offsets, key lengths, value lengths, keys, values, extras)"},
    {"produce", native_produce, METH_VARARGS,
     "produce(producer, topic, partition, first, key ends, keys present, keys, value ends, values present, values, header or None, "
     "its value) -> (row that was refused or the number of rows, error code or 0, its text)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModule_Create(&module);
}
