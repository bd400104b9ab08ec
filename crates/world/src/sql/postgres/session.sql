-- What every connection works under. A statement takes a second at most, so that no row appears much later than
-- the instant that it carries; whoever stops in the middle of a transaction loses it.
SET statement_timeout = 1000;
SET lock_timeout = 1000;
SET idle_in_transaction_session_timeout = 2000;
SET standard_conforming_strings = on;
