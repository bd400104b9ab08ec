-- What every connection works under. A statement takes a second at most, so that no row appears much later than
-- the instant that it carries; without gap locks (READ COMMITTED) publishers don't wait for each other. What is
-- between /*M! and */ only MariaDB reads, between /*!5 and */ only MySQL.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1
    /*M! , max_statement_time = 1, idle_transaction_timeout = 2 */
    /*!50708 , max_execution_time = 1000 */;
