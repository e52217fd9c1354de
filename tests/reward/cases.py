"""Hand-labelled cases: (gold, answer, accepted). Labels follow the rules of REWARD_CASES.md, not the grader."""

ACCEPTED = r"""
34 | **34**
34 | \textbf{34}
34 | $\mathbf{34}$
34 | 34 units
34 | \text{34}
34 | There are $34$ ways to do this.
34 | $x+y+z = 34$
34 | f(2) = 34
34 | [34]
34 | 17 + 17 = 34
34 | 34 = n
34 | 33 is too small, so 34
34 | +34
34 | 034
34 | 34.00
-34 | negative 34
34 | $\color{red}{34}$
34 | the value of $x$ is 34
34 | $\therefore 34$
34 | <answer>34</answer>
12345 | 12,345
12345 | 12\,345
12345 | 12{,}345
2000000 | 2 million
1000000 | 1e6
7 | seven
\frac12 | 0.50
\frac12 | \frac{1}{2} = 0.5
\frac12 | 1/2 (0.5)
\frac12 | 50\%
0.\overline{3} | \frac{1}{3}
3.5 | 3\frac12
25\% | 0.25
864 \mbox{ inches}^2 | 864 square inches
5.4 \text{ cents} | 5.4
60 \text{ mph} | 60 miles per hour
18\pi | 18\pi \text{ square inches}
3 \pm 2 \sqrt{2} | 3 + 2\sqrt{2}, 3 - 2\sqrt{2}
1,-2 | x = -2 or x = 1
\{1,2,3\} | {3, 2, 1}
(3,\frac{\pi}{2}) | (r,\theta) = (3, \pi/2)
(2,3) | x=2, y=3
(-\infty, 2) \cup (3, \infty) | x < 2 or x > 3
x \in [-2,7] | -2 \le x \le 7
1 < x < 2 | 2 > x > 1
\mathbb{R} | (-\infty,\infty)
x^2+y^2=1 | y^2 + x^2 - 1 = 0
y = 2x+3 | 2x + 3
x <= 1 | -x \ge -1
\cot x | \frac{\cos x}{\sin x}
\log_2 3 | \frac{\ln 3}{\ln 2}
2x(x+1) | 2x^2+2x
\begin{pmatrix} 1/5 \\ -18/5 \end{pmatrix} | \begin{bmatrix} 0.2 \\ -3.6 \end{bmatrix}
4210_{5} | 4210_5
6:00 \text{ p.m.} | 6:00 pm
\text{ellipse} | It is an ellipse
\text{no solution} | No solutions
B | (B) east
ACD | A, C and D
none | None
"""

REJECTED = r"""
34 | 34, 35
34 | 34 or 35
34 | 3 4
34 | 3,4
34 | 3a4
34 | 34a
34 | 34x
34 | 34^2
34 | 34 - 1
34 | not 34
34 | maybe 34
34 | \sqrt{34}
34 | 34i
34 | (34, 35)
34 | at least 34
34 | one less than 34
34 | 34 thousand
34 | 33 = 34
34 | -x = 34
34 | 2x = 34
34 | x \ge 34
34 | 34 to 36
34 | 34-36
34 | ~~34~~
34 | \cancel{34}
34 | [33, 34, 35]
34 | 34 (or 35)
34 | 34 is wrong
34 | 33 because 30 + 4 = 34
34 | 34.000001
34 | nan
34 | \infty
17 | 17 is too large, so 16
1234 | 12,34
\frac12 | 1/2 or 1/3
\frac12 | 12
25\% | 0.25\%
0.\overline{3} | 0.3
864 \mbox{ inches}^2 | 864 \text{ cm}^2
5.4 \text{ cents} | 5.4 dollars
5\sqrt{3} \text{ cm} | 5\sqrt{3} \text{ m}
3 \pm 2 \sqrt{2} | 3 + 2\sqrt{2}
1,-2 | 1, -2, 3
(1,2,3) | (3, 2, 1)
a=3, b=4 | a=4, b=3
(0,1] | [0,1]
x > 5 | 5
y = 2x+3 | x = 2y+3
p - q | q - p
R - r | 0
11\sqrt2 | 112
\log_2 3 | \log_3 2
4210_{5} | 4210
\text{Evelyn} | Evelyn or Bob
\text{east} | southeast
B | A or B
B | Bob
\begin{pmatrix}1 & 2 \\ 3 & 4\end{pmatrix} | \begin{pmatrix}1 & 3 \\ 2 & 4\end{pmatrix}
"""


def pairs(table: str) -> list[tuple[str, str]]:
    """Gold and answer of every line."""
    return [tuple(line.split(" | ", 1)) for line in table.strip().splitlines()]  # type: ignore[misc]
