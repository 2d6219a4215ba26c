-- A join with a bounded side input.
SELECT b.auction, b.bidder, b.price, b.date_time, s.value
FROM (SELECT *, auction % 10000 AS key FROM bid) AS b JOIN side_input AS s ON b.key = s.key
