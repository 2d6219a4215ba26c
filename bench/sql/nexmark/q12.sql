-- The bids of each bidder in each window. The suite takes the time at which a bid is processed; a view takes the bid's own.
SELECT bidder, count(*) AS bids, window.start AS starts, window.end AS ends
FROM bid
GROUP BY bidder, window(date_time, '10 seconds')
