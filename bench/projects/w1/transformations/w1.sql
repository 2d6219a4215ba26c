-- W1: filter and project. The output never retracts.
CREATE STREAMING TABLE bids (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING
) USING kafka TBLPROPERTIES ('subscribe' = 'bids', 'format' = 'json');

CREATE MATERIALIZED VIEW w1 TBLPROPERTIES ('topic' = 'w1', 'mode' = 'append') AS
SELECT auction, bidder, price * 89 DIV 100 AS price_eur, upper(channel) AS channel, date_time
FROM bids
WHERE price > 5000 AND auction % 3 = 0;
