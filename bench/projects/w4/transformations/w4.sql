-- W4: W2 over a changelog in which a third of the messages retract a bid.
CREATE STREAMING TABLE bids (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING
) USING kafka TBLPROPERTIES ('subscribe' = 'changes', 'format' = 'json', 'mode' = 'changelog');

CREATE MATERIALIZED VIEW w4 TBLPROPERTIES ('topic' = 'w4', 'mode' = 'upsert', 'key' = 'auction') AS
SELECT auction, count(*) AS bids, sum(price) AS total, max(price) AS top FROM bids GROUP BY auction;
