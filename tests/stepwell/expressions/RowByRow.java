package stepwell;

import java.util.Map;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.MutableProjection;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateMutableProjection$;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The answers of the code that Spark generates for one expression, row by row and in one call: a row that raises does not hide the
 * others. harness.py compiles this with the compiler that Spark compiles its own code with.
 */
public class RowByRow {
  private Expression bound;
  private scala.collection.immutable.Seq expressions;
  private MutableProjection projection;

  /** A JSON list with one cell for each row: the value, or an object with the class of the error. */
  public String answers(Expression bound, InternalRow[] rows) {
    this.bound = (Expression) bound.clone();
    java.util.List list = new java.util.ArrayList();
    list.add(this.bound);
    expressions = scala.jdk.javaapi.CollectionConverters.asScala(list).toSeq();
    DataType type = bound.dataType();
    boolean makesMap = bound.toString().contains("map");
    generate();
    StringBuilder out = new StringBuilder("[");
    for (int i = 0; i < rows.length; i++) {
      if (i > 0) out.append(',');
      int start = out.length();
      try {
        write(out, value(rows[i], type), type);
      } catch (Throwable error) {
        out.setLength(start);
        out.append("{\"raises\":");
        text(out, nameOf(error));
        out.append('}');
        if (makesMap) generate(); // it has kept the entries that it had
      }
    }
    return out.append(']').toString();
  }

  /** As in Spark's own projections, the interpreter takes the place of code that cannot be generated, such as that of a time zone that does not exist. */
  private void generate() {
    try {
      projection = (MutableProjection) GenerateMutableProjection$.MODULE$.generate(expressions, false);
    } catch (Exception error) {
      projection = null;
    }
  }

  private Object value(InternalRow row, DataType type) {
    if (projection == null) return bound.eval(row);
    InternalRow result = (InternalRow) projection.apply(row);
    return result.isNullAt(0) ? null : result.get(0, type);
  }

  /** Spark's name of the error, or that of the Java class if it is none of Spark's. */
  private static String nameOf(Throwable error) {
    String name = error instanceof SparkThrowable ? ((SparkThrowable) error).getCondition() : error.getClass().getName();
    return name == null ? "None" : name;
  }

  private static void write(StringBuilder out, Object value, DataType type) {
    if (value == null) {
      out.append("null");
    } else if (value instanceof UTF8String) {
      text(out, value.toString());
    } else if (value instanceof byte[]) {
      byte[] bytes = (byte[]) value;
      out.append('"');
      for (int i = 0; i < bytes.length; i++) {
        out.append(Character.forDigit((bytes[i] >> 4) & 15, 16)).append(Character.forDigit(bytes[i] & 15, 16));
      }
      out.append('"');
    } else if (value instanceof Decimal) {
      text(out, ((Decimal) value).toJavaBigDecimal().toPlainString());
    } else if (value instanceof Float) {
      out.append(((Float) value).doubleValue());
    } else if (value instanceof ArrayData) {
      ArrayData array = (ArrayData) value;
      DataType element = ((ArrayType) type).elementType();
      items(out, array, array.numElements(), element);
    } else if (value instanceof MapData) {
      MapData map = (MapData) value;
      out.append('[');
      items(out, map.keyArray(), map.numElements(), ((MapType) type).keyType());
      out.append(',');
      items(out, map.valueArray(), map.numElements(), ((MapType) type).valueType());
      out.append(']');
    } else if (value instanceof InternalRow) {
      InternalRow row = (InternalRow) value;
      StructType struct = (StructType) type;
      out.append('[');
      for (int i = 0; i < row.numFields(); i++) {
        if (i > 0) out.append(',');
        DataType inner = struct.apply(i).dataType();
        write(out, row.isNullAt(i) ? null : row.get(i, inner), inner);
      }
      out.append(']');
    } else {
      out.append(value); // a number or a boolean; Python reads NaN and Infinity as Java writes them
    }
  }

  private static void items(StringBuilder out, ArrayData array, int count, DataType element) {
    out.append('[');
    for (int i = 0; i < count; i++) {
      if (i > 0) out.append(',');
      write(out, array.isNullAt(i) ? null : array.get(i, element), element);
    }
    out.append(']');
  }

  private static void text(StringBuilder out, String value) {
    out.append('"');
    for (int i = 0; i < value.length(); i++) {
      char c = value.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ' || c > '~') {
        out.append("\\u");
        for (int shift = 12; shift >= 0; shift -= 4) out.append(Character.forDigit((c >> shift) & 15, 16));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }
}
