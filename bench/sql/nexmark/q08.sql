-- New users who open an auction in the same window.
SELECT p.id, p.name, p.starts
FROM (
    SELECT id, name, w.start AS starts
    FROM (SELECT id, name, window(date_time, '10 seconds') AS w FROM person) AS persons
    GROUP BY id, name, w.start
) AS p
JOIN (
    SELECT seller, w.start AS starts
    FROM (SELECT seller, window(date_time, '10 seconds') AS w FROM auction) AS auctions
    GROUP BY seller, w.start
) AS a ON p.id = a.seller AND p.starts = a.starts
