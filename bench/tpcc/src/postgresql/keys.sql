-- Keys and indexes, after the population; statistics for plans; and a checkpoint, so that the run does not begin with one.
ALTER TABLE warehouse ADD PRIMARY KEY (w_id);
ALTER TABLE warehouse_total ADD PRIMARY KEY (w_id);
ALTER TABLE district ADD PRIMARY KEY (w_id, d_id);
ALTER TABLE district_total ADD PRIMARY KEY (w_id, d_id);
ALTER TABLE next_order ADD PRIMARY KEY (w_id, d_id);
ALTER TABLE customer ADD PRIMARY KEY (w_id, d_id, c_id);
ALTER TABLE orders ADD PRIMARY KEY (w_id, d_id, o_id);
ALTER TABLE new_order ADD PRIMARY KEY (w_id, d_id, o_id);
ALTER TABLE order_line ADD PRIMARY KEY (w_id, d_id, o_id, number);
ALTER TABLE item ADD PRIMARY KEY (i_id);
ALTER TABLE stock ADD PRIMARY KEY (w_id, i_id);
CREATE INDEX customer_by_name ON customer (w_id, d_id, last, first, c_id);
CREATE INDEX orders_by_customer ON orders (w_id, d_id, c_id, o_id);
