-- The five topics. Every message about flights and weather is a row. Of an airline, a plane or an airport, the last message counts.

CREATE STREAMING TABLE flights (
    carrier STRING NOT NULL, flight INT, tailnum STRING, origin STRING NOT NULL, dest STRING NOT NULL,
    time_hour TIMESTAMP NOT NULL, sched_dep_time INT, dep_delay INT, arr_delay INT, air_time INT, distance INT
) USING kafka TBLPROPERTIES ('subscribe' = 'flights', 'format' = 'json');

CREATE STREAMING TABLE weather (
    origin STRING NOT NULL, time_hour TIMESTAMP NOT NULL, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE
) USING kafka TBLPROPERTIES ('subscribe' = 'weather', 'format' = 'json');

CREATE STREAMING TABLE airlines (carrier STRING, name STRING)
USING kafka TBLPROPERTIES ('subscribe' = 'airlines', 'format' = 'json', 'mode' = 'upsert', 'key' = 'carrier');

CREATE STREAMING TABLE planes (tailnum STRING, year INT, manufacturer STRING, model STRING, seats INT)
USING kafka TBLPROPERTIES ('subscribe' = 'planes', 'format' = 'json', 'mode' = 'upsert', 'key' = 'tailnum');

CREATE STREAMING TABLE airports (faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT)
USING kafka TBLPROPERTIES ('subscribe' = 'airports', 'format' = 'json', 'mode' = 'upsert', 'key' = 'faa');
