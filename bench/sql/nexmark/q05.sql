-- Hot items: the auctions with most bids of each sliding window.
WITH counts AS (
    SELECT auction, window(date_time, '10 seconds', '2 seconds') AS w, count(*) AS num
    FROM bid
    GROUP BY auction, window(date_time, '10 seconds', '2 seconds')
), most AS (
    SELECT w.start AS starts, max(num) AS top FROM counts GROUP BY w.start
)
SELECT counts.auction, counts.num, counts.w.start AS starts
FROM counts JOIN most ON counts.w.start = most.starts AND counts.num >= most.top
