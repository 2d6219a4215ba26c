-- Winning bids.
SELECT id, item_name, description, initial_bid, reserve, opened, expires, seller, category, auction, bidder, price, date_time
FROM (
    SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS opened, a.expires, a.seller,
        a.category, b.auction, b.bidder, b.price, b.date_time,
        row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS place
    FROM auction AS a JOIN bid AS b ON a.id = b.auction
    WHERE b.date_time BETWEEN a.date_time AND a.expires
) AS bids
WHERE place = 1
