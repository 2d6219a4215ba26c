-- The three streams of Nexmark and the side input of q13.

CREATE STREAMING TABLE person (
    id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, date_time TIMESTAMP, extra STRING
) USING kafka TBLPROPERTIES ('subscribe' = 'person', 'mode' = 'changelog');

CREATE STREAMING TABLE auction (
    id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP,
    expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) USING kafka TBLPROPERTIES ('subscribe' = 'auction', 'mode' = 'changelog');

CREATE STREAMING TABLE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING
) USING kafka TBLPROPERTIES ('subscribe' = 'bid', 'mode' = 'changelog');

CREATE STREAMING TABLE side_input (key BIGINT, value STRING)
USING kafka TBLPROPERTIES ('subscribe' = 'side_input', 'mode' = 'changelog');
