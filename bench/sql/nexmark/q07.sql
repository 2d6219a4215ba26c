-- The highest bid of each window.
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid AS b
JOIN (
    SELECT w.end AS ends, max(price) AS top
    FROM (SELECT price, window(date_time, '10 seconds') AS w FROM bid) AS windows
    GROUP BY w.end
) AS most ON b.price = most.top
WHERE b.date_time BETWEEN most.ends - INTERVAL '10' SECOND AND most.ends
