-- Hot items, with a rank in place of the second aggregate.
SELECT auction, num, starts
FROM (
    SELECT auction, num, starts, rank() OVER (PARTITION BY starts ORDER BY num DESC) AS place
    FROM (
        SELECT auction, w.start AS starts, count(*) AS num
        FROM (SELECT auction, window(date_time, '10 seconds', '2 seconds') AS w FROM bid) AS windows
        GROUP BY auction, w.start
    ) AS counts
) AS ranked
WHERE place = 1
