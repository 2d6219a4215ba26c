-- W2: count, sum and maximum per auction.
CREATE STREAMING TABLE bids (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING
) USING kafka TBLPROPERTIES ('subscribe' = 'bids', 'format' = 'json');

CREATE MATERIALIZED VIEW w2 TBLPROPERTIES ('topic' = 'w2', 'mode' = 'upsert', 'key' = 'auction') AS
SELECT auction, count(*) AS bids, sum(price) AS total, max(price) AS top FROM bids GROUP BY auction;
