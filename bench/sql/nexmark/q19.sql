-- The ten highest bids of each auction.
SELECT *
FROM (
    SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder, extra) AS place
    FROM bid
) AS bids
WHERE place <= 10
