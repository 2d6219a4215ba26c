-- One row per carrier. If an airline is renamed or deleted, its row changes or disappears.
CREATE MATERIALIZED VIEW carrier_delays
TBLPROPERTIES ('topic' = 'carrier_delays', 'mode' = 'upsert', 'key' = 'carrier') AS
SELECT carrier, name, count(*) AS flights, count(dep_delay) AS departed, avg(dep_delay) AS mean_delay,
       max(dep_delay) AS worst_delay
FROM flights JOIN airlines USING (carrier)
GROUP BY carrier, name;

-- A view over a view. A carrier enters and leaves it when its mean delay changes.
CREATE MATERIALIZED VIEW carriers_on_time
TBLPROPERTIES ('topic' = 'carriers_on_time', 'mode' = 'upsert', 'key' = 'carrier') AS
SELECT carrier, upper(name) AS name, round(mean_delay, 2) AS mean_delay, 1.0 * departed / flights AS departed_share
FROM carrier_delays
WHERE mean_delay < 12;

-- This view can never retract, so its topic may be in mode append: every row is one message.
CREATE MATERIALIZED VIEW late_flights
TBLPROPERTIES ('topic' = 'late_flights', 'mode' = 'append') AS
SELECT concat(carrier, ' ', flight) AS flight, origin, dest, date_format(time_hour, 'yyyy-MM-dd') AS day,
       dep_delay, arr_delay, dep_delay - arr_delay AS made_up
FROM flights
WHERE dep_delay > 60;

-- Changes in Debezium's form, with before, after and op.
CREATE MATERIALIZED VIEW busy_routes
TBLPROPERTIES ('topic' = 'busy_routes', 'mode' = 'changelog', 'key' = 'origin, dest') AS
SELECT origin, dest, airports.name AS airport, count(*) AS flights, avg(air_time) AS mean_air_time
FROM flights JOIN airports ON dest = faa
GROUP BY origin, dest, airports.name
HAVING count(*) >= 2000;

CREATE MATERIALIZED VIEW delays_in_rain
TBLPROPERTIES ('topic' = 'delays_in_rain', 'mode' = 'upsert', 'key' = 'origin, rain') AS
SELECT origin, precip > 0 AS rain, count(*) AS flights, avg(dep_delay) AS mean_delay, min(visib) AS worst_visibility
FROM flights JOIN weather USING (origin, time_hour)
WHERE precip IS NOT NULL
GROUP BY origin, precip > 0;
