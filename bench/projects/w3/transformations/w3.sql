-- W3: bids are joined with auctions, a table that may change. Then the average per category and seller.
CREATE STREAMING TABLE bids (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING
) USING kafka TBLPROPERTIES ('subscribe' = 'bids', 'format' = 'json');

CREATE STREAMING TABLE auctions (auction BIGINT, category BIGINT, seller BIGINT)
USING kafka TBLPROPERTIES ('subscribe' = 'auctions', 'format' = 'json', 'mode' = 'upsert', 'key' = 'auction');

CREATE MATERIALIZED VIEW w3 TBLPROPERTIES ('topic' = 'w3', 'mode' = 'upsert', 'key' = 'category, seller') AS
SELECT category, seller, count(*) AS bids, avg(price) AS mean_price
FROM bids JOIN auctions USING (auction)
GROUP BY category, seller;
