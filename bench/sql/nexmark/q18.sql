-- The last bid of each bidder for each auction.
SELECT auction, bidder, price, channel, url, date_time, extra
FROM (
    SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price DESC, extra) AS place
    FROM bid
) AS bids
WHERE place <= 1
