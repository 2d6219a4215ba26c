-- The average price of the last ten auctions that each seller closed.
SELECT seller, date_time, id,
    avg(final) OVER (PARTITION BY seller ORDER BY date_time, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average
FROM (
    SELECT a.id, a.seller, b.date_time, b.price AS final,
        row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.date_time, b.bidder) AS place
    FROM auction AS a JOIN bid AS b ON a.id = b.auction
    WHERE b.date_time BETWEEN a.date_time AND a.expires
) AS bids
WHERE place = 1
