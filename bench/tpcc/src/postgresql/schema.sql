-- The nine tables (clause 1.3), with W_YTD, D_YTD and D_NEXT_O_ID in tables of their own as in zerohop's keyspaces (clause 1.4.5).
-- So a payment, which waits for W_YTD and D_YTD, makes no New-Order wait. Money is in cents, a rate in ten-thousandths, a time in
-- milliseconds since 1970. Rows that change leave room in their pages, so that a new version needs no entry in an index (HOT).
CREATE TABLE warehouse (w_id int, name text, street_1 text, street_2 text, city text, state text, zip text, tax int);
CREATE TABLE warehouse_total (w_id int, ytd bigint) WITH (fillfactor = 20);
CREATE TABLE district (w_id int, d_id smallint, name text, street_1 text, street_2 text, city text, state text, zip text, tax int);
CREATE TABLE district_total (w_id int, d_id smallint, ytd bigint) WITH (fillfactor = 20);
CREATE TABLE next_order (w_id int, d_id smallint, next int) WITH (fillfactor = 20);
CREATE TABLE customer (
    w_id int, d_id smallint, c_id int, first text, middle text, last text, street_1 text, street_2 text, city text, state text,
    zip text, phone text, since bigint, is_good bool, credit_limit bigint, discount int, balance bigint, ytd_payment bigint,
    payments int, deliveries int, data text
) WITH (fillfactor = 80);
CREATE TABLE history (w_id int, d_id smallint, c_w_id int, c_d_id smallint, c_id int, date bigint, amount bigint, data text);
CREATE TABLE orders (
    w_id int, d_id smallint, o_id int, c_id int, entered bigint, carrier smallint, lines smallint, is_local bool
) WITH (fillfactor = 80);
CREATE TABLE new_order (w_id int, d_id smallint, o_id int);
CREATE TABLE order_line (
    w_id int, d_id smallint, o_id int, number smallint, item int, supplier int, delivered bigint, quantity smallint, amount bigint,
    district_info text
) WITH (fillfactor = 80);
CREATE TABLE item (i_id int, image int, name text, price bigint, data text);
CREATE TABLE stock (
    w_id int, i_id int, quantity bigint, district_infos text[], ytd int, orders int, remote_orders int, data text
) WITH (fillfactor = 80);
